//! Breaking the testbed on purpose.
