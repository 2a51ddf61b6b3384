//! Parts of the loop that belong to one remote site: its tunnel and its device.

use bentpipe_dvb::{Event, Pdu};
use bentpipe_units::Time;

use super::{
    Error, Gateway, LAN_BATCH, LAN_PAUSE, Lan, Side, addresses, deliver, is_from_there, is_reserved,
};
use crate::config::{Config, Remote as RemoteConfig};

/// Opens the devices of remote sites that have their own.
pub(super) fn open(config: &Config) -> Result<Vec<Option<Lan>>, Error> {
    let open = |remote: &RemoteConfig| {
        let Some(device) = &remote.device else { return Ok(None) };
        let own = crate::config::Lan { device: device.clone(), addresses: Vec::new(), ..config.lan.clone() };
        let lan = Lan::open(&own, &remote.networks);
        lan.map(Some).map_err(|error| Error::Lan(device.clone(), error))
    };
    config.remotes.iter().map(open).collect()
}

/// Returns the remote sites with devices of their own, and these, in order.
pub(super) fn names(config: &Config) -> Vec<(&str, &str)> {
    let own =
        config.remotes.iter().filter_map(|remote| Some((remote.name.as_str(), remote.device.as_deref()?)));
    let mut names: Vec<_> = own.collect();
    names.sort_unstable();
    names
}

impl Gateway {
    /// Orders the devices as the remote sites of a new configuration. Must be called before it takes effect.
    pub(super) fn reorder_devices(&mut self, config: &Config) {
        let mut old: Vec<_> =
            self.config.remotes.iter().map(|remote| &remote.name).zip(self.devices.drain(..)).collect();
        let take = |new: &RemoteConfig| old.iter_mut().find(|(name, _)| **name == new.name)?.1.take();
        self.devices = config.remotes.iter().map(take).collect();
    }

    /// Returns `true` if more may wait, after reading devices of remote sites.
    pub(super) fn read_devices(&mut self, now: Time) -> bool {
        let Gateway { remotes, devices, lan_counts, lan_tap, lan_again, buffer, .. } = self;
        let mut more = false;
        if now < *lan_again {
            return false;
        }
        for (remote, lan) in
            remotes.iter_mut().zip(devices).filter_map(|(remote, lan)| Some((remote, lan.as_mut()?)))
        {
            for taken in 1..=LAN_BATCH {
                let len = match lan.read(buffer) {
                    Ok(Some(len)) => len,
                    Ok(None) => break,
                    Err(_) => {
                        lan_counts.read_errors += 1;
                        *lan_again = now + LAN_PAUSE;
                        break;
                    }
                };
                lan_counts.read += 1;
                lan_counts.read_bytes += len as u64;
                let bytes = &buffer[..len];
                if let Some(tap) = lan_tap {
                    tap.packet(now, bytes);
                }
                let is_kept = lan.is_bridge() && addresses(bytes).is_none_or(|(dst, _)| is_reserved(dst));
                if is_kept {
                    lan_counts.reserved += 1;
                } else {
                    remote.push(now, &if lan.is_bridge() { Pdu::ethernet(bytes) } else { Pdu::ip(bytes) });
                }
                more |= taken == LAN_BATCH;
            }
        }
        more
    }

    /// Returns `true` if more may wait, after serving all tunnels.
    pub(super) fn serve_tunnels(&mut self, now: Time) -> bool {
        let Gateway { remotes, devices, lan, lan_counts, lan_tap, routes, stations, buffer, .. } = self;
        let (is_bridge, mut more) = (lan.is_bridge(), false);
        for (site, (remote, own)) in remotes.iter_mut().zip(devices).enumerate() {
            let Some(mut tunnel) = remote.tunnel.take() else { continue };
            if let Some(hello) = tunnel.hello(now, is_bridge) {
                remote.push(now, &if is_bridge { Pdu::ethernet(&hello) } else { Pdu::ip(&hello) });
            }
            let is_own = own.is_some();
            let lan = own.as_mut().unwrap_or(&mut *lan);
            more |= tunnel.read(buffer, LAN_BATCH, is_bridge, |event| match event {
                Event::Ip(packet) if !is_own && is_from_there(routes, packet, site) => remote.looped += 1,
                Event::Ip(packet) => deliver(lan, lan_counts, packet, (now, lan_tap.as_ref())),
                Event::Ethernet(frame) => {
                    let Some((dst, src)) = addresses(frame) else { return };
                    if !is_reserved(dst) {
                        if !is_own {
                            stations.learn(now, src, Side::Remote(site));
                        }
                        deliver(lan, lan_counts, frame, (now, lan_tap.as_ref()));
                    }
                }
                Event::Anomaly(_) => {}
            });
            remote.tunnel = Some(tunnel);
        }
        more
    }
}
