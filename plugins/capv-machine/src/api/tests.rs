//! `crds/*.yaml` is made from the types; `UPDATE_EXPECT=1 cargo test -p capv-machine` writes it anew.

use expect_test::expect_file;
use kube::{CustomResourceExt, Resource};

use super::VSphereMachine;
use crate::names;

#[test]
fn the_crd_of_the_folder_is_that_of_the_type() {
    let text = serde_saphyr::to_string(&VSphereMachine::crd()).expect("a definition can be written as YAML");
    let text =
        format!("# Made from the types in src/api: UPDATE_EXPECT=1 cargo test -p capv-machine crd\n{text}");
    expect_file!["../../crds/vspheremachines.yaml"].assert_eq(&text);
}

#[test]
fn the_group_of_the_kind_is_that_of_the_names() {
    assert_eq!(VSphereMachine::group(&()), names::GROUP);
    assert_eq!(names::FINALIZER, format!("vspheremachine.{}", names::GROUP));
}
