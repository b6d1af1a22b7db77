//! What the controller does, seen on a real API server.

mod create;
