//! Which names are allowed.

/// Lower-case letters, digits, `-` and `.`, at most 253: what most objects are called.
pub(crate) fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && !name.is_empty() && name.split('.').all(is_label_part)
}

/// Lower-case letters, digits and `-`, at most 63.
pub(crate) fn is_label(name: &str) -> bool {
    name.len() <= 63 && is_label_part(name)
}

fn is_label_part(part: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = part.as_bytes();
    bytes.first().is_some_and(|c| plain(*c))
        && bytes.last().is_some_and(|c| plain(*c))
        && bytes.iter().all(|c| plain(*c) || *c == b'-')
}

/// `name` or `domain/name`, as keys of labels and annotations, and finalizers.
pub(crate) fn is_qualified(name: &str) -> bool {
    match name.split_once('/') {
        Some((domain, rest)) => is_subdomain(domain) && is_word(rest) && !rest.is_empty(),
        None => is_word(name) && !name.is_empty(),
    }
}

/// Letters, digits, `-`, `_` and `.`, at most 63, or nothing: what a label's value is.
pub(crate) fn is_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

pub(crate) const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
    (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub(crate) const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case \
    alphanumeric characters or '-', and must start and end with an alphanumeric character \
    (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

pub(crate) const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of \
    alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
    (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

pub(crate) const QUALIFIED_RULE: &str = "name part must consist of alphanumeric characters, '-', \
    '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
    'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
