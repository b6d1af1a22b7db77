//! Errors about single fields, worded as the API server words them.

use serde_json::Value;

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldErrorKind {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
    NotFound,
}

impl FieldErrorKind {
    pub fn cause(self) -> &'static str {
        match self {
            FieldErrorKind::Required => "FieldValueRequired",
            FieldErrorKind::Invalid => "FieldValueInvalid",
            FieldErrorKind::NotSupported => "FieldValueNotSupported",
            FieldErrorKind::Duplicate => "FieldValueDuplicate",
            FieldErrorKind::Forbidden => "FieldValueForbidden",
            FieldErrorKind::TooLong => "FieldValueTooLong",
            FieldErrorKind::TooMany => "FieldValueTooMany",
            FieldErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            FieldErrorKind::NotFound => "FieldValueNotFound",
        }
    }

    fn words(self) -> &'static str {
        match self {
            FieldErrorKind::Required => "Required value",
            FieldErrorKind::Invalid | FieldErrorKind::TypeInvalid => "Invalid value",
            FieldErrorKind::NotSupported => "Unsupported value",
            FieldErrorKind::Duplicate => "Duplicate value",
            FieldErrorKind::Forbidden => "Forbidden",
            FieldErrorKind::TooLong => "Too long",
            FieldErrorKind::TooMany => "Too many",
            FieldErrorKind::NotFound => "Not found",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            FieldErrorKind::Required | FieldErrorKind::Forbidden | FieldErrorKind::TooLong
        )
    }
}

/// One field, what is wrong with it, and the value it has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldError {
    pub kind: FieldErrorKind,
    pub path: String,
    /// `None` hides the value, as the API server does for maps and lists.
    pub value: Option<Value>,
    pub detail: String,
}

impl FieldError {
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError::of(FieldErrorKind::Required, path, None, detail)
    }

    pub fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError::of(FieldErrorKind::Invalid, path, Some(value.into()), detail)
    }

    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError::of(FieldErrorKind::Forbidden, path, None, detail)
    }

    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> FieldError {
        FieldError::of(FieldErrorKind::Duplicate, path, Some(value.into()), "")
    }

    pub fn not_supported<'a>(
        path: impl Into<String>,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = &'a str>,
    ) -> FieldError {
        let list: Vec<String> = supported.into_iter().map(|s| format!("\"{s}\"")).collect();
        let detail = format!("supported values: {}", list.join(", "));
        FieldError::of(
            FieldErrorKind::NotSupported,
            path,
            Some(value.into()),
            detail,
        )
    }

    pub fn of(
        kind: FieldErrorKind,
        path: impl Into<String>,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError {
            kind,
            path: path.into(),
            value,
            detail: detail.into(),
        }
    }

    /// The error without its path, as `causes[].message` has it.
    pub fn body(&self) -> String {
        let mut out = self.kind.words().to_owned();
        if self.kind.shows_value()
            && let Some(value) = &self.value
        {
            // `to_string` of a JSON string is quoted, of a number or bool bare: what Go prints.
            out.push_str(": ");
            out.push_str(&value.to_string());
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }

    fn full(&self) -> String {
        format!("{}: {}", self.path, self.body())
    }
}

/// One error as it is, several in brackets, repeated ones once.
pub(crate) fn aggregate(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(FieldError::full) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
