#!/usr/bin/env python3
"""kubernetes_test.py SOURCE: the manifests of docs/how-to/kubernetes.md, without a cluster.

Jobs and services are validated against Kubernetes' own schemas if there is a Python environment "pytorch", which has
kubernetes-validate. JobSet and TrainJob have no such schemas here: their fields are compared with those that their
documentation lists. In each manifest the command's options must fit the numbers beside them.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

from manual_page import blocks_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)

SOURCE = pathlib.Path(sys.argv[1]).resolve()
PAGE = SOURCE / "docs/how-to/kubernetes.md"
VALIDATOR = ("import json, sys, kubernetes_validate as k\n"
             "for d in json.load(sys.stdin): k.validate(d, k.latest_version(), strict=True)")
# Documented fields: jobset.sigs.k8s.io, reference of v1alpha2, and trainer.kubeflow.org, reference of v1alpha1. A
# template is a Job.
METADATA = {"name", "namespace", "labels", "annotations"}
FIELDS = {
    "JobSet": {"network": {"enableDNSHostnames", "subdomain", "publishNotReadyAddresses"}, "successPolicy": None,
               "failurePolicy": {"maxRestarts", "restartStrategy", "rules"}, "startupPolicy": None, "suspend": None,
               "coordinator": None, "managedBy": None, "ttlSecondsAfterFinished": None,
               "replicatedJobs": {"name", "replicas", "template", "groupName", "dependsOn"}},
    "TrainJob": {"runtimeRef": {"name", "apiGroup", "kind"}, "initializer": None, "labels": None, "annotations": None,
                 "podTemplateOverrides": None, "suspend": None, "managedBy": None,
                 "trainer": {"image", "command", "args", "env", "numNodes", "resourcesPerNode", "numProcPerNode"}},
}
VERSIONS = {"JobSet": "jobset.x-k8s.io/v1alpha2", "TrainJob": "trainer.kubeflow.org/v1alpha1"}


def manifests() -> list[dict]:
    import yaml
    found = [document for block in blocks_of(PAGE) if block.language == "yaml" for document in yaml.safe_load_all(block.text)]
    return [document for document in found if "apiVersion" in document]


def has_documented_fields(manifest: dict) -> None:
    kind, spec = manifest["kind"], manifest["spec"]
    assert manifest["apiVersion"] == VERSIONS[kind] and set(manifest) == {"apiVersion", "kind", "metadata", "spec"}, manifest
    assert set(manifest["metadata"]) <= METADATA, manifest["metadata"]
    assert set(spec) <= set(FIELDS[kind]), f"{kind}: unknown fields {set(spec) - set(FIELDS[kind])}"
    for name, value in spec.items():
        known = FIELDS[kind][name]
        for each in (value if isinstance(value, list) else [value]) if known else []:
            assert set(each) <= known, f"{kind}.{name}: unknown fields {set(each) - known}"


def jobs_of(manifest: dict) -> list[dict]:
    """The Jobs of a manifest, complete: those of a JobSet are made from its templates."""
    if manifest["kind"] != "JobSet":
        return [manifest] if manifest["kind"] in ("Job", "Service", "Secret") else []
    return [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]}, "spec": job["template"]["spec"]}
            for job in manifest["spec"]["replicatedJobs"]]


def fits_kubernetes(documents: list[dict]) -> None:
    if not (python := environments.find("pytorch")):
        print("not validated: schemas (run scripts/environments)")
        return
    done = subprocess.run([python, "-c", VALIDATOR], input=json.dumps(documents), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    print(f"{len(documents)} manifests fit Kubernetes' schemas")


def numbers_fit(manifest: dict, service: str) -> None:
    """A Job's command starts as many nodes as the Job has pods, and meets at the pod with the index 0."""
    spec = manifest["spec"]
    words = spec["template"]["spec"]["containers"][0]["command"]
    assert words[0] == "ddplaunch" and spec["completionMode"] == "Indexed", manifest
    assert f"--nnodes={spec['completions']}" in words and spec["completions"] == spec["parallelism"], words
    address = next(word for word in words if word.startswith("--master-addr="))
    assert re.fullmatch(rf"--master-addr=[\w-]+-0\.{service}", address), address


def main() -> None:
    found = manifests()
    kinds = [manifest["kind"] for manifest in found]
    assert {"Job", "Service", "JobSet", "TrainJob"} <= set(kinds), kinds
    for manifest in found:
        if manifest["kind"] in FIELDS:
            has_documented_fields(manifest)
        for job in jobs_of(manifest):
            if job["kind"] == "Job":
                numbers_fit(job, manifest["metadata"]["name"])
    fits_kubernetes([job for manifest in found for job in jobs_of(manifest)])
    print(f"{len(found)} manifests: {', '.join(kinds)}")


if __name__ == "__main__":
    try:
        import yaml  # noqa: F401
    except ImportError:
        if os.path.realpath(sys.executable) != os.path.realpath("/usr/bin/python3"):  # Debian's module is for Debian's Python
            os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
        print("not installed: python3-yaml")
        sys.exit(77)
    main()
