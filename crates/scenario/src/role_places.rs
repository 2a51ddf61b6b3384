//! Roles of a scenario's nodes, with their places.

use bentpipe_site::RoleAt;

use super::roles::{NodeRoles, Role};
use super::schema::{NodeKind, Scenario};

impl Scenario {
    /// Returns the roles of a node in the order of the file.
    pub fn roles_of(&self, node: &str) -> &[Role] {
        self.node.get(node).and_then(|node| node.role.as_ref()).map_or(&[], NodeRoles::all)
    }

    /// Returns the roles of all nodes with their places.
    pub fn roles(&self) -> impl Iterator<Item = (RoleAt<'_>, &Role)> {
        self.node.keys().flat_map(move |name| {
            self.roles_of(name).iter().enumerate().map(move |(n, role)| (self.role_at(name, n), role))
        })
    }

    fn role_at<'s>(&'s self, name: &'s str, n: usize) -> RoleAt<'s> {
        let node = &self.node[name];
        let key = match node.role {
            Some(NodeRoles::Several(_)) => format!("node.{name}.role.{n}"),
            _ => format!("node.{name}.role"),
        };
        let own = self.link.iter().filter(|(_, link)| link.between.iter().any(|end| end == name));
        let links = own.map(|(link, _)| link.as_str()).collect();
        RoleAt { node: name, n, key, links, forwards: node.kind != NodeKind::Host }
    }
}
