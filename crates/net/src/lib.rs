//! Elements.
