//! Nodes and links of a network, to be drawn.

/// Nodes and links of a network, copies drawn as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkMap {
    /// Nodes, in the order of the file.
    pub nodes: Vec<MappedNode>,
    /// Links, in the order of the file.
    pub links: Vec<MappedLink>,
}

/// Node of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedNode {
    /// Name.
    pub name: String,
    /// Kind, which gives its shape.
    pub kind: MappedKind,
    /// Number of copies.
    pub copies: u32,
}

/// Kind of a mapped node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappedKind {
    /// End of flows.
    Host,
    /// Forwards packets on the ground.
    Router,
    /// Forwards packets in space.
    Satellite,
}

/// Link of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedLink {
    /// Name.
    pub name: String,
    /// Positions of its ends in [`NetworkMap::nodes`].
    pub between: [usize; 2],
    /// Rate, delay and medium in words.
    pub label: String,
}
