//! Building programs from released Go modules: no git, no prebuilt binaries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache;
use crate::command;
use crate::phase::{say, timed};
use crate::versions::library_version;

/// One program and the module graph it is built in.
pub struct Program {
    /// The name of the executable.
    pub name: &'static str,
    /// The version it reports and is cached under.
    pub version: String,
    /// The package to build; `.` for a `main.go` of our own.
    pub package: &'static str,
    /// Modules that fix the versions of the graph.
    pub requires: Vec<(&'static str, String)>,
    /// The Kubernetes release whose libraries the graph must use.
    pub kubernetes: Option<&'static str>,
    /// A `main.go` of our own, for a program that is assembled from plugins.
    pub main: Option<&'static str>,
}

impl Program {
    /// The built executable, from the cache if it is there.
    pub fn ensure(&self) -> Result<PathBuf> {
        let label = format!("{}-{}", self.name, self.version);
        let dir = cache::ensure("parts", &label, &self.recipe(), |dir| {
            say(&format!("building {} {} with Go", self.name, self.version));
            timed(&format!("build {} {}", self.name, self.version), || {
                self.build(dir)
            })
        })?;
        Ok(dir.join(self.name))
    }

    /// Everything that decides what comes out, so that a changed recipe is a new cache entry.
    fn recipe(&self) -> String {
        format!(
            "{} {} {:?} {:?} {:?} {} {}",
            self.name,
            self.package,
            self.requires,
            self.kubernetes,
            self.main,
            self.link_flags(),
            std::env::consts::ARCH,
        )
    }

    fn build(&self, dir: &Path) -> Result<()> {
        ensure!(
            command::exists("go"),
            "Go is not installed: install Go and put it on the PATH"
        );
        let module = dir.join("module");
        fs::create_dir_all(&module)?;
        fs::write(module.join("go.mod"), self.go_mod(&module)?)?;
        if let Some(main) = self.main {
            fs::write(module.join("main.go"), main)?;
        }
        let mut go = Command::new("nice");
        go.current_dir(&module)
            .env("CGO_ENABLED", "0")
            .args([
                "go",
                "build",
                "-mod=mod",
                "-trimpath",
                "-ldflags",
                &self.link_flags(),
            ])
            .arg("-o")
            .arg(dir.join(self.name))
            .arg(self.package);
        command::run_logged(&mut go, &dir.join("build.log"))
    }

    fn go_mod(&self, module: &Path) -> Result<String> {
        let mut text = String::from("module testbed.local/parts\n");
        match self.kubernetes {
            Some(version) => text.push_str(&kubernetes_directives(version, module)?),
            None => text.push_str("go 1.24.0\n"),
        }
        for (name, version) in &self.requires {
            text.push_str(&format!("require {name} v{version}\n"));
        }
        Ok(text)
    }

    fn link_flags(&self) -> String {
        let Some(kubernetes) = self.kubernetes else {
            return "-s -w".to_owned();
        };
        let mut numbers = kubernetes.split('.');
        let (major, minor) = (numbers.next().unwrap_or("1"), numbers.next().unwrap_or("0"));
        let stamp =
            |key: &str, value: &str| format!(" -X k8s.io/component-base/version.{key}={value}");
        ["-s -w".to_owned()]
            .into_iter()
            .chain([
                stamp("gitVersion", &format!("v{kubernetes}")),
                stamp("gitMajor", major),
                stamp("gitMinor", minor),
                stamp("gitTreeState", "clean"),
                stamp("gitCommit", "module"),
                stamp("buildDate", "1970-01-01T00:00:00Z"),
            ])
            .collect()
    }
}

/// The directives that k8s.io/kubernetes has for itself and its users do not inherit.
///
/// It takes its libraries from directories beside it (`=> ./staging/...`) and requires them at
/// version 0.0.0, so whoever builds it as a module must name the released ones.
fn kubernetes_directives(version: &str, module: &Path) -> Result<String> {
    let released = released_go_mod(version, module)?;
    let library = library_version(version);
    let mut text = String::new();
    for line in released.lines().map(str::trim) {
        if line.starts_with("go ") || line.starts_with("godebug ") {
            text.push_str(&format!("{line}\n"));
        }
        if line.contains("=> ./staging/") {
            let name = line
                .trim_start_matches("replace ")
                .split_whitespace()
                .next();
            let name = name.context("a replace directive without a module name")?;
            text.push_str(&format!("replace {name} => {name} v{library}\n"));
        }
    }
    text.push_str(&format!("require k8s.io/kubernetes v{version}\n"));
    Ok(text)
}

fn released_go_mod(version: &str, module: &Path) -> Result<String> {
    let name = format!("k8s.io/kubernetes@v{version}");
    let mut go = Command::new("go");
    // Outside any module: inside one, Go would insist on a go.mod that does not exist yet.
    go.current_dir(module)
        .env("GO111MODULE", "on")
        .args(["mod", "download", "-json", &name]);
    let answer: serde_json::Value = serde_json::from_str(&command::run(&mut go)?)
        .with_context(|| format!("go mod download {name} did not answer with JSON"))?;
    let path = answer["GoMod"]
        .as_str()
        .with_context(|| format!("{name} has no go.mod"))?;
    fs::read_to_string(path).with_context(|| format!("failed to read {path}"))
}
