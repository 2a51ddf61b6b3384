//! Detection of loops without delay, in which packets could circulate indefinitely at one instant.

use std::collections::HashMap;

use bentpipe_net::{Element, Port, Wire};

/// An input of an element, or the one that stands for it.
type Input = (u32, Port);

/// Returns the elements of a zero-delay loop, if there is one. `wires[e][p]` is the destination of output `p`
/// of element `e`.
pub(crate) fn find(elements: &[&dyn Element], wires: &[&[Wire]]) -> Option<Vec<u32>> {
    let mut colour: HashMap<Input, Colour> = HashMap::new();
    wires.iter().flat_map(|outs| outs.iter()).filter(|wire| wire.is_connected()).find_map(|wire| {
        let start = input_of(wire, elements);
        if colour.contains_key(&start) { None } else { search(start, elements, wires, &mut colour) }
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Colour {
    OnPath,
    Done,
}

/// Searches depth first from `start`, without recursion: a network may be long.
fn search(
    start: Input,
    elements: &[&dyn Element],
    wires: &[&[Wire]],
    colour: &mut HashMap<Input, Colour>,
) -> Option<Vec<u32>> {
    let mut path = vec![(start, next_inputs(start, elements, wires))];
    colour.insert(start, Colour::OnPath);
    while let Some((input, nexts)) = path.last_mut() {
        let Some(next) = nexts.pop() else {
            colour.insert(*input, Colour::Done);
            path.pop();
            continue;
        };
        match colour.get(&next) {
            Some(Colour::Done) => {}
            Some(Colour::OnPath) => {
                let from = path.iter().position(|(on_path, _)| *on_path == next).unwrap_or(0);
                return Some(path[from..].iter().map(|((element, _), _)| *element).collect());
            }
            None => {
                colour.insert(next, Colour::OnPath);
                path.push((next, next_inputs(next, elements, wires)));
            }
        }
    }
    None
}

/// Returns the inputs that a packet at `input` reaches instantly through one element.
fn next_inputs((element, port): Input, elements: &[&dyn Element], wires: &[&[Wire]]) -> Vec<Input> {
    let element = element as usize;
    if !elements[element].lookahead().is_zero() {
        return Vec::new();
    }
    let outs = wires[element].iter().enumerate();
    outs.filter(|(out, wire)| wire.is_connected() && elements[element].forwards(port, Port(*out as u16)))
        .map(|(_, wire)| input_of(wire, elements))
        .collect()
}

fn input_of(wire: &Wire, elements: &[&dyn Element]) -> Input {
    let (element, port) = (elements[wire.to() as usize], wire.port());
    let stands = element.alike(port);
    // The first ports show a mistake; all of thousands would take as long as what `alike` saves.
    debug_assert!(
        (0..8).map(Port).all(|out| element.forwards(port, out) == element.forwards(stands, out)),
        "input {port:?} forwards as {stands:?} does, which stands for it"
    );
    (wire.to(), stands)
}
