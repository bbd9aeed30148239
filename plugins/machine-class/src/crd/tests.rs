//! `crds/*.yaml` are made from the definitions; `UPDATE_EXPECT=1 cargo test -p machine-class` writes them anew.

use expect_test::expect_file;

use super::*;

#[test]
fn the_crds_of_the_folder_are_those_of_the_plugin() {
    let files = [
        expect_file!["../../crds/machineclasses.yaml"],
        expect_file!["../../crds/machines.yaml"],
        expect_file!["../../crds/machinesets.yaml"],
        expect_file!["../../crds/machinedeployments.yaml"],
    ];
    for (definition, file) in all().iter().zip(files) {
        let text = serde_saphyr::to_string(definition).expect("a definition can be written as YAML");
        file.assert_eq(&format!(
            "# Made from src/crd.rs: UPDATE_EXPECT=1 cargo test -p machine-class crds\n{text}"
        ));
    }
}

#[test]
fn a_class_must_have_a_provider_spec_and_nothing_else() {
    let [class, ..] = all();
    let schema = &class["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["required"], serde_json::json!(["providerSpec"]));
    assert!(class["spec"]["versions"][0].get("subresources").is_none(), "a class has no status");
}
