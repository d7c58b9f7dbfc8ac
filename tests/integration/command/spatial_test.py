"""Tests what `ucudnn spatial` prints about networks, built-in or from files, as a table and as JSON."""

import unittest

from command import UNHEARD_NET, CommandTest


class Spatial(CommandTest):
    def spatial(self, *words):
        return self.output("spatial", *words)

    def document(self, *words):
        return self.printed_json("spatial", *words, "--json")

    def test_what_is_refused_says_why_and_names_the_next_size(self):
        text = self.spatial("h2", "--net", "resnet50", "--batch", "32")
        self.assertTrue(text.startswith("resnet50, batch 32, images of 224x224, on h2 (2 ranks); bytes are of fp32\n"))
        self.assertRegex(text, r"(?m)^layer4\.0\.conv2 +convolution +32x512x7x7 +4\+3 +refused +- +- +-$")
        self.assertIn("\nrefused: layer4.0.downsample, layer4.0.conv2: h: part 0 of 2 has extent 7, which the stride 2 does not "
                      "divide\n", text)
        self.assertIn("\nnot exact on h2: 2 operators refused\nthe next size at which nothing is refused: 256x224\n"
                      "at this size nothing is refused in stripes of multiples of 32 rows, as shard(..., multiple=32) makes them: "
                      "--multiple 32\n", text)
        self.assertIn("\nwithout what is refused, and as if its results lay in equal stripes:\nforward pass: ", text)

    def test_stripes_of_multiples_are_those_of_shard(self):
        text = self.spatial("h2", "--net", "resnet50", "--batch", "32", "--multiple", "32")
        self.assertRegex(text, r"(?m)^conv1 .+ 64\+48 +exact ")
        self.assertIn("\nexact on h2\n", text)
        document = self.document("h4", "--net", "resnet50", "--batch", "32", "--multiple", "128")
        self.assertEqual((128, "refused", None), tuple(document[key] for key in ("multiple", "verdict", "next_multiple")))
        self.assertEqual("h: part 2 of 4 has extent 0", document["operators"][0]["why"])
        self.assertEqual(32, self.document("h2", "--net", "resnet50", "--batch", "32")["next_multiple"])

    def test_what_is_exact_says_what_travels(self):
        text = self.spatial("h4", "--net", "resnet50", "--batch", "1", "--size", "256")
        # A stripe receives 3 rows of x above and 2 below (3 channels, 256 columns), and 1 row of dy above and 2 below
        # (64 channels, 128 columns).
        x, dy = 5 * 3 * 256 * 4, 3 * 64 * 128 * 4
        self.assertEqual((15360, 98304), (x, dy))
        self.assertRegex(text, r"(?m)^conv1 +convolution +1x64x128x128 +4\*32 +exact +15 KiB +111 KiB +36.8 KiB$")
        self.assert_has(text, "\nexact on h4\n", "\nexact from each rank's own stripe alone: 49 activation, 16 add\n",
                        "\nas calls of cuDNN, pool5 needs UCUDNN_SPATIAL_ONE=replicated\n")
        self.assertNotIn("refused", text)
        self.assertRegex(text, r"(?m)^activations: .+ on one device, .+ on the rank with most \(0\.25\); weights 97\.5 MiB on each")

    def test_what_goes_through_the_module_alone_says_so(self):
        text = self.spatial("h2", "--net", "alexnet", "--batch", "4")
        self.assertRegex(text, r"(?m)^conv1 .+ 28\+27 +convert ")
        self.assertIn("\nconvert: conv1: h: windows of extent 11 and stride 4 go on across a cut with a pad from 4 to 5, not "
                      "with 2: set such a pad, or use ucudnn.spatial.convert (PyTorch)\n", text)
        self.assertRegex(text, r"(?m)^unvouched: drop6, drop7: ranks draw other numbers")

        larger = self.spatial("h2", "--net", "alexnet", "--batch", "4", "--size", "256")
        self.assertIn("\nexact on h2 through ucudnn.spatial.convert alone: as it is, the cut would change 4 operators; 1 operator "
                      "behind a gather of all positions; nobody vouches for 2 operators\n", larger)

    def test_other_weights_are_named(self):
        text = self.spatial("h2w2", "--net", "vgg16", "--batch", "4")
        self.assertIn("\nthe next size at which nothing is refused: 256x256; fc6 then needs other weights\n", text)
        self.assertRegex(text, r"(?m)^fc6 +fully_connected +4x4096x1x1 +same on all +gather ")

    def test_json_holds_what_the_format_says(self):
        document = self.document("n2h2", "--net", "resnet18", "--batch", "4")
        self.assertEqual(("ucudnn-spatial", 1, "resnet18", 4, "n2h2", 4, {"h": 224, "w": 224}, "refused"),
                         tuple(document[key] for key in ("format", "version", "network", "batch", "grid", "ranks", "size", "verdict")))
        self.assertEqual({"size": {"h": 256, "w": 224}, "through": "own_calls", "other_weights": []}, document["next"])
        operators = {made["name"]: made for made in document["operators"]}
        self.assertEqual("input", document["operators"][0]["op"])
        stem = operators["conv1"]
        self.assertEqual(("convolution", "2x64x112x112", {"h": [56, 56]}, "exact"),
                         tuple(stem[key] for key in ("op", "output", "stripes", "verdict")))
        row = 2 * 3 * 224 * 4  # bytes of one row: 2 images in a group, 3 channels, 224 fp32 columns
        self.assertEqual({"pass": "forward", "most_sent_bytes": 3 * row, "most_received_bytes": 3 * row, "all_bytes": 2 * 5 * row,
                          "summed_bytes": 0}, stem["exchanges"][0])
        self.assertEqual(64 * 3 * 49 * 4, stem["exchanges"][1]["summed_bytes"])
        self.assertIn("which the stride 2 does not divide", operators["layer4.0.conv1"]["why"])
        self.assertEqual("replicated", operators["pool5"]["spatial_one"])
        self.assertEqual({}, operators["fc"]["stripes"])
        for name, passes in (("forward", {"forward"}), ("step", {"forward", "backward_data", "backward_filter", "backward"})):
            exchanges = [one for made in document["operators"] for one in made["exchanges"] if one["pass"] in passes]
            self.assertEqual(sum(one["all_bytes"] for one in exchanges), document[name]["all_bytes"], name)
            self.assertLessEqual(document[name]["most_sent_bytes"], sum(one["most_sent_bytes"] for one in exchanges))
        self.assertGreater(document["device_activation_bytes"], 3.9 * document["rank_activation_bytes"])
        exact = self.document("h2", "--net", "resnet18", "--batch", "4", "--size", "256x224")
        self.assertEqual("exact", exact["verdict"])
        self.assertNotIn("next", exact)

    def test_no_size_is_null(self):
        self.assertIsNone(self.document("h2", "--net", "nasnet-a", "--batch", "4")["next"])
        self.assertIn("\nno larger size was found at which nothing is refused\n",
                      self.spatial("h2", "--net", "nasnet-a", "--batch", "4"))

    def test_every_network_has_an_answer(self):
        names = self.run_command("spatial", "h2", "--net", "?", "--batch", "1").stderr
        names = names.split("one of ")[1].split(", or a file")[0].split(", ")
        self.assertGreater(len(names), 15)
        for name in names:
            with self.subTest(name):
                document = self.document("h2", "--net", name, "--batch", "2")
                if document["verdict"] != "refused" or document["next"] is None:
                    continue
                size = "x".join(str(document["next"]["size"][axis]) for axis in "hw")
                self.assertNotEqual("refused", self.document("h2", "--net", name, "--batch", "2", "--size", size)["verdict"])

    def test_a_volume_from_a_file(self):
        net = self.write_net([
            {"name": "data", "op": "input", "channels": 2, "extents": [8, 8, 8]},
            {"name": "conv", "op": "convolution", "inputs": ["data"], "filters": 4, "window": [3, 3, 3], "pad": [1, 1, 1]},
            {"name": "half", "op": "pooling", "inputs": ["conv"], "kind": "maximum", "window": [2, 2, 2], "stride": [2, 2, 2]}])
        document = self.document("d2h2w2", "--net", net, "--batch", "1")
        self.assertEqual("exact", document["verdict"])
        conv = document["operators"][1]
        self.assertEqual({"d": [4, 4], "h": [4, 4], "w": [4, 4]}, conv["stripes"])
        # Each rank has a cube of 4x4x4 in 2 channels, and needs a cube of 5x5x5. The difference is faces, edges and a
        # corner of its neighbours.
        self.assertEqual((5 ** 3 - 4 ** 3) * 2 * 4, conv["exchanges"][0]["most_received_bytes"])
        self.assertIn("images of 8x8x8", self.spatial("d2h2w2", "--net", net, "--batch", "1"))
        self.assert_refused(["spatial", "h2", "--net", net, "--batch", "1", "--size", "8x8"],
                            "--size '8x8': expected depth, rows and columns, as in 64x128x128")

    def test_operators_that_nobody_knows_are_named(self):
        self.write("net.prototxt", UNHEARD_NET)
        words = ["h2", "--net", "net.prototxt", "--batch", "1"]
        self.assertEqual(("unvouched", ["'Unheard' (node 'odd')"]),
                         tuple(self.document(*words, "--pass-through")[key] for key in ("verdict", "unknown")))
        text = self.spatial(*words, "--pass-through")
        self.assertIn("\nunvouched: 'Unheard' (node 'odd'): it is not known, and was passed through\n", text)
        self.assertIn("\nexact on h2; nobody vouches for 1 operator\n", text)


if __name__ == "__main__":
    unittest.main()
