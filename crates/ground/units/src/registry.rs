//! Tables of what a program registers while it runs, such as classes in Python.
//!
//! A file names an entry by its identifier, which should change with the entry's source: hashes of runs cover it. No other process
//! knows the entry, so a file that names it is refused where it is not registered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{PoisonError, RwLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Kind of value that a program may register.
pub trait Registered: Sized + Send + Sync + 'static {
    /// Word for the value in errors, such as "controller".
    const WORD: &str;

    /// Returns the table of this kind.
    fn registry() -> &'static Registry<Self>;
}

/// Values of one kind by their identifiers. They stay for as long as the process: a file may name one at any time.
pub struct Registry<T: 'static>(RwLock<BTreeMap<&'static str, &'static Entry<T>>>);

struct Entry<T> {
    id: String,
    value: T,
}

/// Identifier of a registered value.
pub struct Id<T: 'static>(&'static Entry<T>);

impl<T: Registered> Registry<T> {
    /// Creates an empty table.
    #[expect(clippy::new_without_default, reason = "it is made in a static")]
    pub const fn new() -> Registry<T> {
        Registry(RwLock::new(BTreeMap::new()))
    }

    /// Registers a value under an identifier. If there is one of this identifier, it stays and `value` is dropped.
    ///
    /// A registered value is never freed.
    pub fn register(&self, id: &str, value: T) -> Id<T> {
        let mut registered = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = registered.get(id) {
            return Id(entry);
        }
        let entry: &'static Entry<T> = Box::leak(Box::new(Entry { id: id.to_owned(), value }));
        registered.insert(&entry.id, entry);
        Id(entry)
    }

    /// Returns the first registered identifier that occurs in `text`, if one does. What names one cannot leave the process.
    pub fn named_in(&self, text: &str) -> Option<&'static str> {
        let registered = self.0.read().unwrap_or_else(PoisonError::into_inner);
        registered.keys().copied().find(|id| text.contains(id))
    }

    fn get(&self, id: &str) -> Option<Id<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(id).map(|entry| Id(entry))
    }
}

impl<T> Id<T> {
    /// Returns the identifier.
    pub fn as_str(self) -> &'static str {
        &self.0.id
    }

    /// Returns the registered value.
    pub fn value(self) -> &'static T {
        &self.0.value
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Id<T> {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Id<T>) -> bool {
        self.as_str() == other.as_str()
    }
}

impl<T> Eq for Id<T> {}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl<T> Serialize for Id<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, T: Registered> Deserialize<'de> for Id<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id<T>, D::Error> {
        let id = String::deserialize(deserializer)?;
        T::registry().get(&id).ok_or_else(|| {
            // The text may be hostile: an error shows at most a line of it.
            let (word, id) = (T::WORD, id.chars().take(60).collect::<String>());
            de::Error::custom(format!(
                "no {word} \"{id}\" is registered in this process; such a {word} is written in Python and run by the process that \
                 registered it: see docs/python.md"
            ))
        })
    }
}
