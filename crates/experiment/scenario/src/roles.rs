//! Table of roles: one row a kind.

use bentpipe_site as site;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

bentpipe_site::roles! {
    /// DSCP marker of an edge router (RFC 2475). Packets in transit get the DSCP of the first rule that they match.
    Marker "marker" site::marker::Kind;

    /// Node of a delay-tolerant network (RFC 9171): it stores bundles and forwards them in contacts.
    Dtn "dtn" bentpipe_dtn::kind::Kind, shares
        /// Networks of bundles.
        dtn: bentpipe_dtn::network::Networks;

    /// Network address and port translation (NAPT, RFC 3022) of IPv4.
    Nat "nat" site::nat::Kind;

    /// Performance-enhancing proxy that splits TCP connections (RFC 3135).
    Pep "pep" bentpipe_transport::tcp::pep::kind::Kind;

    /// Gateway of a field of sensors on 802.15.4, in which queries run.
    SensorGateway "sensor-gateway" bentpipe_sensor::kind::Kind, shares
        /// Fields of sensors.
        field: bentpipe_sensor::field::Fields;

    /// Bridge of a conference, which mixes the voice of its members. They are flows of `conference` traffic.
    Conference "conference" bentpipe_voice::conference::Role;

    /// Exchange of a site (PABX), whose dial plan is `[pabx.NODE]`: registrar, back-to-back user agent, trunks.
    Pabx "pabx" bentpipe_telephony::pabx::Kind, shares
        /// Dial plans of exchanges, by their nodes.
        pabx: bentpipe_telephony::pabx::Exchanges;
}

/// Role of a node, or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum NodeRoles {
    /// Single role.
    One(Role),
    /// Several; packets go to the first that takes them.
    Several(Vec<Role>),
}

impl NodeRoles {
    /// Returns the roles in the order of the file.
    pub fn all(&self) -> &[Role] {
        match self {
            NodeRoles::One(role) => std::slice::from_ref(role),
            NodeRoles::Several(roles) => roles,
        }
    }
}
