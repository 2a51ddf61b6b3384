//! Roles of a scenario's nodes, with their places.

use std::collections::HashMap;

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
        self.roles_at(self.node.keys().map(String::as_str))
    }

    /// Returns the roles of some nodes with their places.
    pub(crate) fn roles_at<'s>(
        &'s self,
        nodes: impl Iterator<Item = &'s str>,
    ) -> impl Iterator<Item = (RoleAt<'s>, &'s Role)> {
        let mut links: HashMap<&str, Vec<&str>> =
            nodes.filter(|name| !self.roles_of(name).is_empty()).map(|name| (name, Vec::new())).collect();
        // Once for all nodes: each may have a role.
        let has_roles = !links.is_empty();
        for (name, link) in self.link.iter().take_while(|_| has_roles) {
            for end in &link.between {
                links.get_mut(end.as_str()).into_iter().for_each(|all| all.push(name));
            }
        }
        let nodes = self.node.keys().filter_map(move |name| Some((name, links.remove(name.as_str())?)));
        nodes.flat_map(move |(name, links)| {
            let roles = self.roles_of(name).iter().enumerate();
            roles.map(move |(n, role)| (self.role_at(name, n, links.clone()), role))
        })
    }

    fn role_at<'s>(&'s self, name: &'s str, n: usize, links: Vec<&'s str>) -> RoleAt<'s> {
        let node = &self.node[name];
        let key = match node.role {
            Some(NodeRoles::Several(_)) => format!("node.{name}.role.{n}"),
            _ => format!("node.{name}.role"),
        };
        RoleAt { node: name, n, key, links, forwards: node.kind != NodeKind::Host }
    }
}
