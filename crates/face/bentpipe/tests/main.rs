//! Integration tests, one program: each module is built and linked once.

mod calls;
mod campaign;
mod captures;
mod cfdp;
mod cli;
mod damage;
mod documentation;
mod dtn;
mod emulate;
mod gateway;
mod hostile;
mod idle;
mod intake;
mod left_out;
mod rohc;
mod rtp;
mod serve;
mod sip;
mod speech;
mod ts;
mod video;
