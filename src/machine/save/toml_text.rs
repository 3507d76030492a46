//! Values as TOML, each in one line.

use serde_json::Value;

use crate::text::quoted;

/// Returns a value of TOML, without empty fields of tables.
pub(super) fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(inline).collect::<Vec<_>>().join(", ")
        ),
        Value::Object(fields) => {
            let is_empty = |value: &Value| match value {
                Value::Null | Value::Bool(false) => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                _ => false,
            };
            let field = |(name, value): (&String, &Value)| {
                let is_bare = name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                let name = if is_bare && !name.is_empty() {
                    name.clone()
                } else {
                    quoted(name)
                };
                format!("{name} = {}", inline(value))
            };
            let fields: Vec<String> = fields
                .iter()
                .filter(|(_, value)| !is_empty(value))
                .map(field)
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}
