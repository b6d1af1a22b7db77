//! Data on stdout in the format asked for; talk on stderr.

use crate::failure::Failure;
use clap::ValueEnum;
use serde_json::Value;
use std::io::{self, Write};

/// How data is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// JSON; one document a line while watching.
    Json,
    /// YAML.
    Yaml,
}

/// One document as YAML that any Kubernetes tool reads.
pub fn yaml(value: &Value) -> Result<String, Failure> {
    serde_saphyr::to_string(value)
        .map_err(|error| Failure::error(format!("cannot write YAML: {error}")))
}

/// Several documents as one YAML stream.
pub fn yaml_stream(values: &[Value]) -> Result<String, Failure> {
    let documents: Result<Vec<String>, Failure> = values.iter().map(yaml).collect();
    Ok(documents?
        .iter()
        .map(|text| format!("---\n{}\n", text.trim_end()))
        .collect())
}

/// Several documents as `kubectl` writes them in JSON.
pub fn list(items: Vec<Value>) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// One document in a machine's format, or the text for people.
pub fn render(
    format: Format,
    value: &Value,
    text: impl FnOnce() -> String,
) -> Result<String, Failure> {
    match format {
        Format::Table => Ok(text()),
        Format::Json => Ok(format!("{value:#}\n")),
        Format::Yaml => yaml(value),
    }
}

/// Writes data. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Says something to the person at the terminal.
pub fn say(text: impl AsRef<str>) {
    // Talk is never worth failing for.
    let _ = writeln!(io::stderr(), "{}", text.as_ref());
}

/// Says something that the next line takes the place of.
pub fn hint(text: impl AsRef<str>) {
    let mut out = io::stderr().lock();
    let _ = write!(out, "{}", text.as_ref()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_that_an_old_reader_takes_for_something_else_are_quoted() {
        let text =
            yaml(&json!({"a": "on", "b": "0755", "c": "yes", "d": "1.20", "e": "~"})).unwrap();
        for word in ["on", "0755", "yes", "1.20", "~"] {
            assert!(
                !text.contains(&format!(": {word}\n")),
                "{word} is bare in:\n{text}"
            );
        }
    }

    #[test]
    fn a_stream_is_read_back_as_the_documents_it_was_made_of() {
        let documents = vec![json!({"a": 1}), json!({"b": ["x", {"c": "d\ne\n"}]})];
        let text = yaml_stream(&documents).unwrap();
        let back: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        assert_eq!(back, documents);
    }
}
