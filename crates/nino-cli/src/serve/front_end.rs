//! The static files of ComfyUI's page, where its Python package is installed.

use crate::env::Env;
use std::path::{Path, PathBuf};

const PACKAGE: &str = "comfyui_frontend_package/static";

/// Looks in the active virtual environment, in those of ComfyUI's folder, and in the user's own
/// packages.
pub(super) fn find(env: &Env) -> Option<PathBuf> {
    let comfyui = env.comfyui.iter();
    let own = comfyui.flat_map(|folder| ["venv", ".venv"].map(|name| folder.join(name)));
    let user = env.home.iter().map(|home| home.join(".local"));
    let mut roots = env.python.iter().cloned().chain(own).chain(user);
    roots.find_map(|root| in_environment(&root))
}

fn in_environment(root: &Path) -> Option<PathBuf> {
    let unix = std::fs::read_dir(root.join("lib")).into_iter().flatten();
    let unix = unix
        .flatten()
        .map(|python| python.path().join("site-packages"));
    let mut packages = unix.chain([root.join("Lib/site-packages")]);
    let pages = |packages: PathBuf| packages.join(PACKAGE);
    packages.find_map(|p| Some(pages(p)).filter(|page| page.join("index.html").is_file()))
}

#[cfg(test)]
mod tests {
    use super::in_environment;

    #[test]
    fn the_package_is_found_in_an_environment() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(in_environment(root.path()), None);
        let page = root
            .path()
            .join("lib/python3.12/site-packages")
            .join(super::PACKAGE);
        std::fs::create_dir_all(&page).unwrap();
        assert_eq!(in_environment(root.path()), None);
        std::fs::write(page.join("index.html"), "").unwrap();
        assert_eq!(in_environment(root.path()), Some(page));
    }
}
