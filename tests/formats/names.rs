//! Names of libraries in bytes.

use cudarun::formats::names::{
    libraries, library_paths, packed_libraries, split, whole_objects, without_hash,
};

#[test]
fn finds_separate_names() {
    let data = b"x\0libcudnn.so.9\0libnvrtc.so\0'libcuda.so.1'\"libcudart.so.11.0\" \
        /usr/lib/libcublas.so.12 libnccl.so.%d libcudnn.so.9.x mylibcufft.so.11 libcurand.sorted libnvrtc-builtins.so.12.4";
    let found: Vec<String> = libraries(data).into_iter().collect();
    assert_eq!(
        found,
        [
            "libcuda.so.1",
            "libcudart.so.11.0",
            "libcudnn.so.9",
            "libnvrtc-builtins.so.12.4",
            "libnvrtc.so"
        ]
    );
}

#[test]
fn finds_names_that_are_packed_together() {
    let known = |name: &str| name.starts_with("libcu");
    let packed = |data: &[u8]| {
        packed_libraries(data, &known)
            .into_iter()
            .collect::<Vec<_>>()
    };
    let rust = b"NulErrorlibcudnn.so.9libcublas.so.12libcuda.solibcudart.so.12usage: libx.so.1";
    assert_eq!(
        packed(rust),
        [
            "libcublas.so.12",
            "libcuda.so",
            "libcudart.so.12",
            "libcudnn.so.9"
        ]
    );
    assert!(packed(b"/opt/libcudnn.so.9 libcudnn.sorted libcudnn.so.%d").is_empty());
    packed(b".so.so");
}

#[test]
fn finds_paths() {
    let data =
        b"x\0/opt/cuda/lib64/libcudnn.so.9\0a:/b/libcublas.so.12' lib/libcufft.so.11 {d}/libcudart.so.12\0./libnccl.so.2\0";
    let found: Vec<String> = library_paths(data).into_iter().collect();
    assert_eq!(
        found,
        [
            "./libnccl.so.2",
            "/b/libcublas.so.12",
            "/opt/cuda/lib64/libcudnn.so.9"
        ]
    );
    assert_eq!(library_paths(b"lib/libcudnn.so.9").len(), 1);
}

#[test]
fn finds_paths_below_the_origin() {
    let data = b"$ORIGIN/../libcudnn.so.9\0x$ORIGIN/libnvrtc.so.12\0 ${ORIGIN}/libnccl.so.2 \0${ORIGIN}/a/libcufft.so.11\0";
    let found: Vec<String> = library_paths(data).into_iter().collect();
    assert_eq!(
        found,
        [
            "$ORIGIN/../libcudnn.so.9",
            "${ORIGIN}/a/libcufft.so.11",
            "x$ORIGIN/libnvrtc.so.12"
        ]
    );
    assert!(library_paths(b"$ORIGIN").is_empty() && library_paths(b"$lib.so").is_empty());
}

#[test]
fn finds_whole_texts_that_name_an_object() {
    let data = b"plug.so\0/opt/a b/plug.so.2\0cannot open plug.so: \0%s/plug.so\0.so\0plug.sort\0$ORIGIN/x.so\0end.so.1";
    let found: Vec<String> = whole_objects(data).into_iter().collect();
    assert_eq!(
        found,
        ["$ORIGIN/x.so", "/opt/a b/plug.so.2", "end.so.1", "plug.so"]
    );
}

#[test]
fn splits_and_unmangles() {
    assert_eq!(split("/usr/lib/libcudnn.so.9"), None);
    assert_eq!(split("libcudnn_ops.so.9.1"), Some(("libcudnn_ops", "9.1")));
    assert_eq!(split("libnvrtc.so"), Some(("libnvrtc", "")));
    assert_eq!(split("libnvrtc.sox"), None);
    assert_eq!(split("libnvrtc.so."), None);
    assert_eq!(split("libnvrtc.alt.so.13"), Some(("libnvrtc.alt", "13")));
    assert_eq!(without_hash("libcudnn-74a4c495"), Some("libcudnn"));
    assert_eq!(without_hash("libcudart.41118559"), Some("libcudart"));
    assert_eq!(without_hash("libcudnn_ops"), None);
    assert_eq!(without_hash("libcudnn-zzzzzzzz"), None);
    assert_eq!(without_hash("-74a4c495"), None);
}
