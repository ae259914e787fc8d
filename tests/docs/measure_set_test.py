#!/usr/bin/env python3
"""What scripts/measure_set.py keeps of the documents of the benches."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import measure_set  # noqa: E402


def network(name, seconds, right=True):
    return {"network": name, "threads": 2, "seconds": seconds, "right": right}


class MeasureSet(unittest.TestCase):
    def test_a_group_of_networks_has_the_faster_setting_of_each_peer_and_no_wrong_answer(self):
        documents = [{"results": [network("a", {"heddle": 1, "onnxruntime": 3, "onnxruntime best": 2, "openvino": 4})]},
                     {"results": [network("b", {"heddle": 1, "onnxruntime": 2}, right=False)]}]
        self.assertEqual(measure_set.network_groups(documents), [
            {"name": "1 networks f32, 2 threads", "peer": "ONNX Runtime", "results": [{"subject": "a", "ours": 1e3, "peer": 2e3}]},
            {"name": "1 networks f32, 2 threads", "peer": "OpenVINO", "results": [{"subject": "a", "ours": 1e3, "peer": 4e3}]}])

    def test_a_group_of_kernels_has_the_best_peer_of_each_subject(self):
        times = [{"static": 1, "naive": 9, "onednn": 2, "mkl": 3}, {"static": 1, "mkl": 2}, {"static": 1, "tuned": 1}]
        document = {"results": [{"subject": str(i), "times_ms": t} for i, t in enumerate(times)]}
        group, = measure_set.kernel_groups("products", document)
        self.assertEqual((group["name"], group["peer"]), ("2 products", "MKL, oneDNN 2.6"))
        self.assertEqual([r["peer"] for r in group["results"]], [2, 2])

    def test_a_library_with_a_search_of_its_own_has_a_group_beside_the_others(self):
        document = {"results": [{"subject": "a", "us": {"static": 2, "eager": 4, "cublaslt": 3}},
                                {"subject": "b", "us": {"static": 2, "eager": 4}}]}
        default, searched = measure_set.kernel_groups("products", document)
        self.assertEqual((default["name"], default["peer"]), ("2 products", "PyTorch (its libraries)"))
        self.assertEqual((searched["name"], searched["peer"]), ("1 products", "cuBLASLt, its own search"))
        self.assertEqual(measure_set.peers_of({"peers": {"torch": "2.11", "cublaslt": "13.1.0"}})[1][:16], "cuBLASLt 13.1.0 ")

    def test_a_command_that_is_ended_keeps_what_it_wrote(self):
        script = "import sys, time; open(sys.argv[-1], 'w').write('{\"results\": []}'); time.sleep(60)"
        self.assertEqual(measure_set.run([sys.executable, "-c", script], 2), {"results": []})


if __name__ == "__main__":
    unittest.main()
