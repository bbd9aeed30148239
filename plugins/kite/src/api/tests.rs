//! `crds/*.yaml` are made from the types; `UPDATE_EXPECT=1 cargo test -p kite` writes them anew.

use expect_test::expect_file;
use kube::CustomResourceExt;

use super::{KiteUser, KiteVirtualMachine};

fn yaml<K: CustomResourceExt>() -> String {
    let text = serde_saphyr::to_string(&K::crd()).expect("a definition can be written as YAML");
    format!("# Made from the types in src/api: UPDATE_EXPECT=1 cargo test -p kite crds\n{text}")
}

#[test]
fn the_crds_of_the_folder_are_those_of_the_types() {
    expect_file!["../../crds/kiteusers.yaml"].assert_eq(&yaml::<KiteUser>());
    expect_file!["../../crds/kitevirtualmachines.yaml"].assert_eq(&yaml::<KiteVirtualMachine>());
}
