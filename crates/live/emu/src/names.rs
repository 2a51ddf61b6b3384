//! Names of hosts in a program that is linked statically with glibc.
//!
//! The switch for names (`/etc/nsswitch.conf`) may name modules, such as `myhostname`, `resolve` and `mdns4_minimal`. glibc
//! loads them into a static program too, and they end it if they are of another version of glibc than the program's own.

#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
unsafe extern "C" {
    fn __nss_configure_lookup(
        database: *const std::ffi::c_char,
        services: *const std::ffi::c_char,
    ) -> std::ffi::c_int;
}

/// Restricts names of hosts to `/etc/hosts` and DNS in a static program. Does nothing in a dynamic one.
///
/// Must be called before a second thread starts.
pub fn leave_out_modules() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    // SAFETY: both are strings that end with zero and live as long as the program; no other thread resolves names yet.
    unsafe {
        __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr());
    }
}
