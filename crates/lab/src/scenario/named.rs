//! What an author gives names to.

use indexmap::IndexMap;

/// Tables by the names their author gave them, in the order of the file.
pub type Named<T> = IndexMap<String, T>;
