//! How a public object is written: a list of its keys, each with a value of a domain type.

use std::borrow::Cow;
use std::ffi::OsStr;

use serde::Serialize;
use serde_json::{Value, json};

/// A public object with these keys, in this order; `..` adds those of another object. A new field of the domain type is no key
/// until it stands here.
///
/// ```ignore
/// object!(GpuObject(gpu: Gpu) { "bus": gpu.bus, "model": gpu.model, });
/// ```
macro_rules! object {
    ($name:ident($one:ident: $domain:ty) { $($key:literal: $value:expr,)* $(..$more:expr)? }) => {
        pub(in crate::report) struct $name<'a>(pub(in crate::report) &'a $domain);

        impl serde::Serialize for $name<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let $one = self.0;
                let mut object = serializer.serialize_map(None)?;
                $(object.serialize_entry($key, &$value)?;)*
                $(for (key, value) in $more.as_object().into_iter().flatten() {
                    object.serialize_entry(key, value)?;
                })?
                object.end()
            }
        }
    };
}
pub(super) use object;

pub(super) fn each<'a, T: 'a, O>(
    values: impl IntoIterator<Item = &'a T>,
    object: impl Fn(&'a T) -> O,
) -> Vec<O> {
    values.into_iter().map(object).collect()
}

/// A path as JSON has it: U+FFFD replaces bytes that are not UTF-8.
pub(super) fn path(path: &impl AsRef<OsStr>) -> Cow<'_, str> {
    path.as_ref().to_string_lossy()
}

pub(super) fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

pub(super) fn merge(object: &mut Value, more: Value) {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
}
