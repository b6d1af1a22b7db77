//! Who is on the stage with whom: a test says what it needs and waits here until it may have it.
//!
//! All tests are started at once, so that the order is the stage's: what takes long begins first, small
//! ones fill the gaps, and those that take away what others need come last, one by one.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What a test needs, in the order in which tests begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A database for longer than most: begun late, it would be waited for.
    LongDatabase,
    /// A database that others had before and will have again, as it is.
    LentDatabase,
    /// A database that others had before, and will not have again.
    LeftDatabase,
    /// A database of three members.
    Database,
    /// The same, brought up beside others for a test that will be alone with it.
    DatabaseAhead,
    /// A few small pods.
    FewPods,
    /// The controller or the control plane, which no one else can rely on meanwhile.
    ControlPlane,
    /// A node to drain, which no one else can rely on meanwhile; not before those who left a database
    /// on it to be alone with.
    DrainedNode,
    /// Nodes to be lost, after all those who need them.
    Nodes,
}

impl Need {
    /// How much of the machine it takes; nothing that can be shared if it must be alone.
    fn shares(self) -> Option<usize> {
        match self {
            Need::FewPods => Some(1),
            Need::ControlPlane | Need::DrainedNode | Need::Nodes => None,
            _ => Some(2),
        }
    }

    fn is_lent(self) -> bool {
        matches!(self, Need::LentDatabase | Need::LeftDatabase)
    }
}

/// How many databases are lent at a time: with more, each would be used by fewer tests.
const LENT: usize = 2;

/// For each core: databases mostly wait, for a lease, a probe or a checkpoint.
const SHARES_PER_CORE: usize = 4;

/// One who waits: by need, then in the order of arrival.
type Ticket = (Need, u64);

struct Board {
    shares: usize,
    arrived: u64,
    waiting: BTreeSet<Ticket>,
    running: Vec<Need>,
}

impl Board {
    fn new(shares: usize) -> Board {
        Board {
            shares,
            arrived: 0,
            waiting: BTreeSet::new(),
            running: Vec::new(),
        }
    }

    fn arrive(&mut self, need: Need) -> Ticket {
        self.arrived += 1;
        let ticket = (need, self.arrived);
        self.waiting.insert(ticket);
        ticket
    }

    /// Lets somebody begin, if it is their turn and there is room.
    fn begin(&mut self, ticket: Ticket) -> bool {
        let mut before = self.waiting.range(..ticket);
        // Who waits for a database that is lent holds up nobody else.
        let is_turn = before.all(|(need, _)| self.waits_to_borrow(*need));
        let begins = is_turn && !self.waits_to_borrow(ticket.0) && self.has_room(ticket.0);
        if begins {
            self.waiting.remove(&ticket);
            self.running.push(ticket.0);
        }
        begins
    }

    fn has_room(&self, need: Need) -> bool {
        let Some(shares) = need.shares() else {
            return self.running.is_empty();
        };
        let used: Option<usize> = self.running.iter().map(|n| n.shares()).sum();
        // Whoever is alone on the stage may have it, however small the stage is.
        used.is_some_and(|used| used == 0 || used + shares <= self.shares)
    }

    fn waits_to_borrow(&self, need: Need) -> bool {
        let lent = self.running.iter().filter(|n| n.is_lent()).count();
        need.is_lent() && lent >= LENT
    }

    fn end(&mut self, need: Need) {
        if let Some(index) = self.running.iter().position(|n| *n == need) {
            self.running.swap_remove(index);
        }
    }
}

static BOARD: LazyLock<Mutex<Board>> = LazyLock::new(|| Mutex::new(Board::new(shares())));
static CHANGED: Notify = Notify::const_new();
/// When the first test arrived.
static OPENED: OnceLock<tokio::time::Instant> = OnceLock::new();

/// Tests are started one after the other; by then all are here, and the order is ours.
const ALL_ARRIVED: Duration = Duration::from_millis(500);

fn shares() -> usize {
    let asked = std::env::var("ENSEMBLE_E2E_SHARES").ok();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    asked
        .and_then(|shares| shares.parse().ok())
        .unwrap_or(SHARES_PER_CORE * cores)
}

fn board() -> MutexGuard<'static, Board> {
    BOARD.lock().unwrap_or_else(|error| error.into_inner())
}

/// A turn on the stage; it ends when it is dropped.
#[derive(Debug)]
pub struct Turn {
    need: Need,
    test: String,
    since: Instant,
}

/// Waits for a turn.
pub async fn enter(need: Need) -> Turn {
    // The test's thread has its name.
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    let arrived = Instant::now();
    begin(need).await;
    note(&test, "waited", arrived);
    Turn {
        need,
        test,
        since: Instant::now(),
    }
}

impl Turn {
    /// Ends this turn and waits for another one.
    pub async fn change(&mut self, need: Need) {
        let arrived = Instant::now();
        leave(self.need);
        begin(need).await;
        self.need = need;
        note(&self.test, "waited", arrived);
        self.since = Instant::now();
    }

    /// Writes down what the time since the last such note was used for.
    pub fn note(&mut self, phase: &str) {
        note(&self.test, phase, self.since);
        self.since = Instant::now();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.note("test");
        leave(self.need);
    }
}

/// How many tests wait for a database that others had before.
pub fn who_borrow() -> usize {
    let waiting = &board().waiting;
    waiting.iter().filter(|(need, _)| need.is_lent()).count()
}

async fn begin(need: Need) {
    let waiting = Waiting(board().arrive(need));
    let opened = *OPENED.get_or_init(tokio::time::Instant::now);
    tokio::time::sleep_until(opened + ALL_ARRIVED).await;
    loop {
        let changed = CHANGED.notified();
        if board().begin(waiting.0) {
            // The next one may fit, too.
            CHANGED.notify_waiters();
            return;
        }
        changed.await;
    }
}

fn leave(need: Need) {
    board().end(need);
    CHANGED.notify_waiters();
}

/// One who gives up waiting must not hold up the others.
struct Waiting(Ticket);

impl Drop for Waiting {
    fn drop(&mut self) {
        if board().waiting.remove(&self.0) {
            CHANGED.notify_waiters();
        }
    }
}

/// Adds a line to the file that says what took how long, if one is wanted.
fn note(test: &str, phase: &str, since: Instant) {
    let Some(path) = std::env::var_os("ENSEMBLE_E2E_TIMES") else {
        return;
    };
    let line = format!("{:.1}\t{phase}\t{test}\n", since.elapsed().as_secs_f64());
    let file = OpenOptions::new().create(true).append(true).open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        eprintln!("cannot write down how long {test} took: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who of those who wait begins, one after the other.
    fn begun(board: &mut Board) -> Vec<Need> {
        let mut begun = Vec::new();
        for ticket in board.waiting.clone() {
            if board.begin(ticket) {
                begun.push(ticket.0);
            }
        }
        begun
    }

    #[test]
    fn as_many_begin_as_there_is_room_for_and_the_long_ones_first() {
        let mut board = Board::new(5);
        for need in [
            Need::FewPods,
            Need::Database,
            Need::LongDatabase,
            Need::Database,
        ] {
            board.arrive(need);
        }
        assert_eq!(begun(&mut board), [Need::LongDatabase, Need::Database]);
        board.end(Need::LongDatabase);
        assert_eq!(begun(&mut board), [Need::Database, Need::FewPods]);
    }

    #[test]
    fn who_must_be_alone_waits_for_everybody_and_is_alone() {
        let mut board = Board::new(8);
        board.arrive(Need::Nodes);
        board.arrive(Need::ControlPlane);
        board.arrive(Need::FewPods);
        assert_eq!(begun(&mut board), [Need::FewPods]);
        board.end(Need::FewPods);
        assert_eq!(begun(&mut board), [Need::ControlPlane]);
        board.arrive(Need::FewPods);
        assert_eq!(begun(&mut board), []);
        board.end(Need::ControlPlane);
        assert_eq!(begun(&mut board), [Need::FewPods]);
        board.end(Need::FewPods);
        assert_eq!(begun(&mut board), [Need::Nodes]);
    }

    #[test]
    fn who_waits_for_a_lent_database_holds_up_nobody_and_who_keeps_it_comes_last() {
        let (lent, left) = (Need::LentDatabase, Need::LeftDatabase);
        let mut board = Board::new(8);
        for need in [left, lent, lent, lent, Need::Database] {
            board.arrive(need);
        }
        assert_eq!(begun(&mut board), [lent, lent, Need::Database]);
        board.end(lent);
        assert_eq!(begun(&mut board), [lent]);
        board.end(lent);
        assert_eq!(begun(&mut board), [left]);
    }

    #[test]
    fn a_small_stage_has_one_at_a_time() {
        let mut board = Board::new(1);
        board.arrive(Need::Database);
        board.arrive(Need::Database);
        assert_eq!(begun(&mut board), [Need::Database]);
        board.end(Need::Database);
        assert_eq!(begun(&mut board), [Need::Database]);
    }
}
