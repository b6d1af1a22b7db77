//! The images of the testbed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use super::debian::{self, Packages};
use super::layer::Layer;
use super::oci::Image;
use crate::cache;
use crate::command::output;
use crate::parts::{self, Version};
use crate::phase::timed;
use crate::versions::{ETCD, ETCD_OLDEST};

/// Every server in these images runs as this user, so that pods may forbid root.
const SERVER_USER: &str = "999:999";

const POSTGRES: Packages = Packages {
    name: "postgres",
    packages: "postgresql-15 patroni python3-kubernetes python3-psycopg2 procps curl",
    prepare: "groupadd -g 999 postgres && useradd -u 999 -g 999 -d /tmp postgres \
        && mkdir -p /etc/postgresql-common \
        && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf",
    // The just-in-time compiler is more than half of it, and never used here. Python is compiled ahead:
    // Patroni runs it twice for each start of PostgreSQL, from a file system that cannot be written to.
    // A layer keeps no times, so compiled files are not to be compared with their sources by them.
    finish: "rm -rf /usr/lib/*/libLLVM* /usr/lib/*/libz3* /usr/lib/postgresql/15/lib/bitcode \
        /usr/lib/postgresql/15/lib/llvmjit*; find / -xdev -name __pycache__ -prune -exec rm -rf {} + \
        && python3 -m compileall -q -x '/(kubernetes|test|lib2to3)/' \
        --invalidation-mode unchecked-hash /usr/lib/python3 /usr/lib/python3.11",
};

const REDIS: Packages = Packages {
    name: "redis",
    packages: "redis-server redis-sentinel redis-tools procps curl",
    prepare: "groupadd -g 999 redis && useradd -u 999 -g 999 -d /tmp redis",
    finish: "true",
};

/// Makes what is missing of all images and puts them into the storage of a registry.
pub fn publish_all(registry: &Path) -> Result<()> {
    for image in all()? {
        image
            .publish(registry)
            .with_context(|| format!("failed to publish {}:{}", image.repository, image.tag))?;
    }
    Ok(())
}

/// Makes what is missing of all images.
pub fn all() -> Result<Vec<Image>> {
    let mut images = vec![pause()?];
    for tag in ["1", "2"] {
        images.push(image(
            "toolbox",
            tag,
            vec![toolbox()?, version_layer(tag)?],
            &[],
        )?);
        images.push(postgres(tag)?);
        images.push(redis(tag)?);
    }
    for version in [Version::Oldest, Version::Current] {
        images.push(etcd(version)?);
    }
    Ok(images)
}

fn pause() -> Result<Image> {
    const SOURCE: &str = include_str!("../../images/pause.c");
    let layer = layer("pause", SOURCE, |root| {
        let source = root.with_file_name("pause.c");
        fs::write(&source, SOURCE)?;
        let (program, source) = (root.join("pause").display().to_string(), source);
        output(
            "gcc",
            &[
                "-static",
                "-Os",
                "-o",
                &program,
                &source.display().to_string(),
            ],
        )?;
        Ok(())
    })?;
    image("pause", "1", vec![layer], &["/pause"])
}

/// A shell and the usual small programs, in two megabytes.
fn toolbox() -> Result<Layer> {
    layer("toolbox", "busybox-static, all links, /tmp", |root| {
        for dir in ["bin", "etc", "tmp"] {
            fs::create_dir_all(root.join(dir))?;
        }
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
        fs::write(
            root.join("etc/passwd"),
            "root:x:0:0::/:/bin/sh\nserver:x:999:999::/tmp:/bin/sh\n",
        )?;
        fs::write(root.join("etc/group"), "root:x:0:\nserver:x:999:\n")?;
        let busybox = root.join("bin/busybox");
        fs::copy("/bin/busybox", &busybox)
            .context("/bin/busybox is missing: install the package busybox-static")?;
        output(
            &busybox.display().to_string(),
            &["--install", "-s", &root.join("bin").display().to_string()],
        )?;
        // The links must lead to the program inside the image, not inside the cache.
        for entry in fs::read_dir(root.join("bin"))?.flatten() {
            if entry.path().is_symlink() {
                fs::remove_file(entry.path())?;
                std::os::unix::fs::symlink("/bin/busybox", entry.path())?;
            }
        }
        Ok(())
    })
}

fn postgres(tag: &str) -> Result<Image> {
    const ENTRY: &str = include_str!("../../images/postgres.sh");
    let entry = layer("postgres-entry", ENTRY, |root| {
        write_program(&root.join("usr/local/bin/run-postgres"), ENTRY)
    })?;
    let layers = vec![
        debian::base_layer()?,
        POSTGRES.layer()?,
        entry,
        version_layer(tag)?,
    ];
    image("postgres", tag, layers, &["run-postgres"])
}

fn redis(tag: &str) -> Result<Image> {
    let layers = vec![debian::base_layer()?, REDIS.layer()?, version_layer(tag)?];
    image("redis", tag, layers, &["redis-server"])
}

fn etcd(version: Version) -> Result<Image> {
    let (number, server, client) = (
        match version {
            Version::Current => ETCD,
            Version::Oldest => ETCD_OLDEST,
        },
        parts::etcd(version).ensure()?,
        parts::etcdctl(version).ensure()?,
    );
    let recipe = format!("{} {}", server.display(), client.display());
    let programs = layer(&format!("etcd-{number}"), &recipe, |root| {
        let dir = root.join("usr/local/bin");
        fs::create_dir_all(&dir)?;
        fs::copy(&server, dir.join("etcd"))?;
        fs::copy(&client, dir.join("etcdctl"))?;
        Ok(())
    })?;
    image("etcd", number, vec![toolbox()?, programs], &["etcd"])
}

/// A program of ours, from its release build: the program and the libraries it is linked with.
pub fn program(name: &str, program: &Path, tag: &str) -> Result<Image> {
    let scratch = cache::root()?.join("images").join(name);
    let _lock = cache::Lock::wait(&format!("images-{name}"))?;
    cache::remove_tree(&scratch)?;
    let root = scratch.join("root");
    let inside = format!("/usr/local/bin/{name}");
    timed(&format!("make the image of {name}"), || {
        fs::create_dir_all(root.join("tmp"))?;
        fs::create_dir_all(root.join("etc"))?;
        fs::create_dir_all(root.join("usr/local/bin"))?;
        fs::write(
            root.join("etc/passwd"),
            format!("{name}:x:65532:65532::/:{inside}\n"),
        )?;
        fs::copy(program, root.join(inside.trim_start_matches('/')))
            .with_context(|| format!("failed to copy {}", program.display()))?;
        for library in libraries_of(program)? {
            let target = root.join(library.trim_start_matches('/'));
            fs::create_dir_all(target.parent().context("a library without a directory")?)?;
            fs::copy(&library, &target).with_context(|| format!("failed to copy {library}"))?;
        }
        let layer = Layer::pack(&root, &scratch.join("layer.tar"))?;
        cache::remove_tree(&root)?;
        let mut image = image(name, tag, vec![layer], &[&inside])?;
        image.user = "65532:65532".to_owned();
        Ok(image)
    })
}

/// The files that a program needs to start; none for a static one.
fn libraries_of(program: &Path) -> Result<Vec<String>> {
    let Ok(text) = output("ldd", &[&program.display().to_string()]) else {
        return Ok(Vec::new());
    };
    // `libc.so.6 => /lib/libc.so.6 (0x...)`, or `/lib64/ld-linux.so.2 (0x...)`.
    let paths = text
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(str::to_owned).collect())
}

/// Makes two tags of an image differ in content: with the same content containerd cannot tell
/// them apart, and an update could not be seen to have happened.
fn version_layer(tag: &str) -> Result<Layer> {
    layer(&format!("version-{tag}"), tag, |root| {
        fs::create_dir_all(root.join("etc"))?;
        Ok(fs::write(
            root.join("etc/image-version"),
            format!("{tag}\n"),
        )?)
    })
}

fn image(repository: &str, tag: &str, layers: Vec<Layer>, entrypoint: &[&str]) -> Result<Image> {
    Ok(Image {
        repository: repository.to_owned(),
        tag: tag.to_owned(),
        layers,
        entrypoint: entrypoint.iter().map(|word| (*word).to_owned()).collect(),
        user: if repository == "pause" {
            String::new()
        } else {
            SERVER_USER.to_owned()
        },
    })
}

/// A layer that `fill` makes from a recipe, from the cache if it is there.
fn layer(name: &str, recipe: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<Layer> {
    let dir = cache::ensure("images", name, recipe, |dir| {
        let root = dir.join("root");
        fs::create_dir_all(&root)?;
        fill(&root).with_context(|| format!("failed to make the layer {name}"))?;
        Layer::pack(&root, &dir.join("layer.tar"))?;
        cache::remove_tree(&root)
    })?;
    Layer::from_file(&dir.join("layer.tar"))
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(path.parent().context("a program without a directory")?)?;
    fs::write(path, text)?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o755),
    )?)
}
