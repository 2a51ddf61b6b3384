//! The Debian package.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{COMPLETIONS, EXAMPLES, VERSION, copy_folder, output};
use crate::{root, sh};

/// Files of the repository, and where they are installed.
const FILES: &[(&str, &str)] = &[
    ("contrib/debian/bentpipe-serve.service", "usr/lib/systemd/system/bentpipe-serve.service"),
    ("contrib/debian/bentpipe-site.service", "usr/lib/systemd/system/bentpipe-site.service"),
    ("contrib/debian/bentpipe.sysusers", "usr/lib/sysusers.d/bentpipe.conf"),
    ("contrib/debian/postinst", "DEBIAN/postinst"),
    ("LICENSE-APACHE", "usr/share/doc/bentpipe/LICENSE-APACHE"),
    ("LICENSE-MIT", "usr/share/doc/bentpipe/LICENSE-MIT"),
    ("CHANGELOG.md", "usr/share/doc/bentpipe/changelog"),
];

/// Builds the package and returns its path.
pub(super) fn build(program: &Path, copyright: &str, dist: &Path) -> Result<PathBuf> {
    let tree = root().join("target/debian");
    let _ = fs::remove_dir_all(&tree);
    let to = |path: &str| -> Result<PathBuf> {
        let target = tree.join(path);
        fs::create_dir_all(target.parent().context("a folder")?)?;
        Ok(target)
    };
    fs::copy(program, to("usr/bin/bentpipe")?)?;
    for (from, path) in FILES {
        fs::copy(root().join(from), to(path)?)?;
    }
    fs::write(to("usr/share/doc/bentpipe/copyright")?, copyright)?;
    for folder in EXAMPLES {
        copy_folder(&root().join(folder), &tree.join("usr/share/doc/bentpipe/examples").join(folder))?;
    }
    let run = program.display().to_string();
    for (shell, path) in COMPLETIONS {
        fs::write(to(path)?, output(&run, &["completions", shell])?)?;
    }
    let pages = to("usr/share/man/man1/bentpipe.1")?.with_file_name("");
    output(&run, &["man", &pages.display().to_string()])?;
    let all: Vec<String> = crate::files(&pages, ".1").iter().map(|page| page.display().to_string()).collect();
    let compress: Vec<&str> = ["-9n"].into_iter().chain(all.iter().map(String::as_str)).collect();
    output("gzip", &compress)?;
    output("gzip", &["-9n", &to("usr/share/doc/bentpipe/changelog")?.display().to_string()])?;
    let architecture = output("dpkg", &["--print-architecture"])?;
    let control = fs::read_to_string(root().join("contrib/debian/control"))?;
    let control = control.replace("@VERSION@", VERSION).replace("@ARCHITECTURE@", architecture.trim());
    fs::write(to("DEBIAN/control")?, control.replace("@GLIBC@", &glibc(&fs::read(program)?)))?;
    fs::set_permissions(to("DEBIAN/postinst")?, fs::Permissions::from_mode(0o755))?;
    let package = dist.join(format!("bentpipe_{VERSION}_{}.deb", architecture.trim()));
    let (tree, shown) = (tree.display().to_string(), package.display().to_string());
    sh("dpkg-deb", &["--build", "--root-owner-group", &tree, &shown])?;
    Ok(package)
}

/// Returns the latest version of glibc whose symbols a program names, such as "2.34".
pub(super) fn glibc(program: &[u8]) -> String {
    let name = b"GLIBC_2.";
    let minor = |at: usize| {
        let digits = program[at + name.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0_u32, |number, byte| number.saturating_mul(10).saturating_add(u32::from(byte - b'0')))
    };
    let places = program.windows(name.len()).enumerate().filter(|(_, window)| window == name);
    format!("2.{}", places.map(|(at, _)| minor(at)).max().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_latest_glibc_is_found() {
        assert_eq!(super::glibc(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0"), "2.34");
    }
}
