//! `status -w`: redrawn on a terminal, one line per change elsewhere.

use super::{plain, status};
use crate::args::{Global, Status};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::view::paint::Paint;
use crate::view::{Seen, list, members};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

/// By namespace and name.
type Known = BTreeMap<(String, String), DynamicObject>;

/// Goes on showing until it is interrupted.
pub async fn run(cluster: &Cluster, global: &Global, args: &Status) -> Result<Exit, Failure> {
    // An object that does not exist or a kind that is not known is said at once, not watched for.
    if let Some(name) = &args.name {
        cluster.ensemble(name).await?;
    }
    let api = status::api(cluster, args);
    let mut config = watcher::Config::default();
    config.label_selector.clone_from(&args.selector);
    config.field_selector = args
        .name
        .as_ref()
        .map(|name| format!("metadata.name={name}"));
    let redraw = std::io::stdout().is_terminal() && global.output == Format::Table;
    let mut screen = Screen {
        global,
        args,
        redraw,
        known: Known::new(),
        lines: BTreeMap::new(),
    };
    let mut events = std::pin::pin!(events(api, config));
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {
                output::say("interrupted; what is under way in the cluster goes on");
                return Ok(Exit::Interrupted);
            }
            event = events.next() => match event {
                None => return Err(Failure::error("the watch has ended")),
                Some(Err(error)) => screen.trouble(&error)?,
                Some(Ok(event)) => screen.take(event)?,
            },
            _ = seconds.tick(), if redraw => screen.draw()?,
        }
    }
}

/// What happens to the objects, with pauses after failures.
pub fn events(
    api: Api<DynamicObject>,
    config: watcher::Config,
) -> impl Stream<Item = Result<Event<DynamicObject>, watcher::Error>> {
    watcher::watcher(api, config).default_backoff()
}

/// What is known, and how it is shown.
struct Screen<'a> {
    global: &'a Global,
    args: &'a Status,
    redraw: bool,
    known: Known,
    /// The last line of each, so that only changes are written.
    lines: BTreeMap<(String, String), String>,
}

impl Screen<'_> {
    fn take(&mut self, event: Event<DynamicObject>) -> Result<(), Failure> {
        match event {
            Event::Init => self.known.clear(),
            Event::InitDone => {}
            Event::Apply(object) | Event::InitApply(object) => {
                self.known.insert(key(&object), object.clone());
                if !self.redraw {
                    return self.line(&object);
                }
            }
            Event::Delete(object) => {
                self.known.remove(&key(&object));
                self.lines.remove(&key(&object));
                if !self.redraw {
                    output::say(format!("{} is gone", object.name_any()));
                }
            }
        }
        if self.redraw { self.draw() } else { Ok(()) }
    }

    fn line(&mut self, object: &DynamicObject) -> Result<(), Failure> {
        let seen = Seen::of(object);
        let line = match self.global.output {
            Format::Table => members::transition(&seen, Timestamp::now()),
            Format::Json => plain(object)?.to_string(),
            Format::Yaml => format!("---\n{}", output::yaml(&plain(object)?)?),
        };
        // Without the time in front, to see whether anything changed.
        let content = line
            .split_once("  ")
            .map_or(line.as_str(), |(_, rest)| rest)
            .to_owned();
        if self.lines.insert(key(object), content.clone()) == Some(content) {
            return Ok(());
        }
        output::print(&format!("{}\n", line.trim_end()))
    }

    fn draw(&self) -> Result<(), Failure> {
        let paint = Paint::choose(self.global.color);
        let now = Timestamp::now();
        let seen: Vec<Seen> = self.known.values().map(Seen::of).collect();
        let text = match (&self.args.name, seen.as_slice()) {
            (Some(_), [one]) => members::picture(one, now, paint),
            (Some(name), _) => format!("{name} is gone\n"),
            (None, seen) => list::list(seen, self.args.all_namespaces, now, paint),
        };
        let foot = paint.faint("ctrl-c ends this view; the work goes on without it");
        // Home, then clear what was below: less flicker than clearing first.
        output::print(&format!("\x1b[H\x1b[J{text}\n{foot}\n"))
    }

    fn trouble(&self, error: &watcher::Error) -> Result<(), Failure> {
        output::say(format!("the watch was cut ({error}); trying again"));
        Ok(())
    }
}

fn key(object: &DynamicObject) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}
