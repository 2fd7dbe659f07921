"""Tests that the tree keeps the rules of rules.py, and that rules.py finds a violation of each rule."""
import os
import re
import runpy
import subprocess
import unittest
from pathlib import Path
from unittest import mock

import rules
import sources as source_items

ROOT = Path(os.environ["FOLDGRAD_SOURCE_DIR"])
TOPS = ("emulation", "engine", "book/ladder", "ops", "models", "train", "python", "tests")


def sources():
    return {str(p.relative_to(ROOT)): p.read_text() for top in TOPS
            for p in sorted((ROOT / top).rglob("*")) if p.suffix in (".h", ".cpp", ".cu")}


class Structure(unittest.TestCase):
    maxDiff = None

    def test_the_tree_keeps_the_rules(self):
        files = sources()
        self.assertGreater(len(files), 500)
        self.assertEqual(rules.violations(files), [])
        self.assertEqual(list(rules.rings(files)), [])
        self.assertEqual(list(rules.unused(files)), [])

    def test_links_of_documents_lead_to_files(self):
        pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
        links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)\s#]+)[^)]*\)", page.read_text())
                 if "://" not in link]
        self.assertGreater(len(links), 100)
        self.assertEqual([f"{page.relative_to(ROOT)}: {link}" for page, link in links
                          if not (page.parent / link).exists()], [])

    def source_faults(self, *replaced):
        page = (ROOT / "docs/sources.md").read_text()
        for old, new in replaced:
            page, count = re.subn(old, new, page, flags=re.M)
            self.assertGreater(count, 0, old)
        return list(source_items.faults(page, ROOT))

    def test_every_item_of_the_sources_is_somewhere(self):
        self.assertEqual(self.source_faults(), [])

    def test_an_item_of_the_sources_that_is_missing_is_found(self):
        def broken(*replaced):
            faults = self.source_faults(*replaced)
            return faults[0] if len(faults) == 1 else faults
        self.assertEqual(broken((r"^\| Table 10 .*\n", "")), "table 10 of the paper has no row")
        self.assertEqual(broken((r"^\| Tables 3, 4 ", "| Tables 3, 4, 11 ")), "table 11 of the paper does not exist")
        self.assertEqual(broken((r"^\| Fig\. 2 .*\n", "")), "figure 2 of the paper has no row")
        self.assertEqual(broken((r"^\| \(15\) .*\n", ""))[0], "equation 15 of the paper has no row")
        self.assertRegex(broken((r"^\| \(2\)-\(3\)(.*)", r"| (2)\1\n| (3)\1")),
                         r"^equations are \(1\), \(2\), \(3\), \(4\)-")
        self.assertEqual(broken((r"^\| \(17\) \| UN-17", "| (17) | UN-16"))[0],
                         "(17) has ['UN-16'], in docs/equations.md ['UN-17']")
        self.assertEqual(broken((r"^(\| \(16\).*)channel_norm_math\.h\)", r"\1channel_norm_skip.h)")),
                         "(16): no file of its row cites [UN-16]")
        self.assertEqual(broken(("TinyImageNet", "another set")), "TinyImageNet is not named")
        self.assertEqual(broken((r"^(\| Table 6 .*\|) [^|]+ \|$", r"\1 - |")),
                         "Table 6: where it was measured, or why not, is missing")

    def test_an_item_of_the_sources_that_does_not_exist_is_found(self):
        def added(text):
            return self.source_faults((r"^## Dynamic Tanh", f"{text}\n## Dynamic Tanh"))
        self.assertEqual(added("[here](../ops/absent.h)"), ["the link ../ops/absent.h leads nowhere"])
        self.assertEqual(added("[here](vision.md#absent)"), ["vision.md has no heading #absent"])
        self.assertEqual(added("`configs/multi30k-{ln,absent}.toml`"), ["configs/multi30k-absent.toml does not exist"])
        self.assertEqual(added("`configs/absent/*.toml`"), ["configs/absent/*.toml does not exist"])
        self.assertEqual(added("`foldgrad absent`"), ["there is no command foldgrad absent"])
        self.assertEqual(added("`foldgrad.analyze absent`"), ["there is no command foldgrad.analyze absent"])
        self.assertEqual(added("`train.absent` and `norm.un.absent = 1`"),
                         ["there is no key train.absent", "there is no key norm.un.absent"])
        self.assertEqual(added("[AVG-9]"), ["docs/equations.md has no AVG-9"])

    def test_names_beside_those_of_pytorch_exist(self):
        rows = re.findall(r"^\| `.*", (ROOT / "docs/class.md").read_text(), re.M)
        keys = (ROOT / "docs/training.md").read_text()
        self.assertGreater(len(rows), 30)
        for row in rows:
            _, _, here, headers, key, _ = re.split(r" ?\| ?", row)
            text = "".join((ROOT / path).read_text() for path in re.findall(r"`(.*?)`", headers))
            for code in re.findall(r"`(.*?)`", here):
                for name in re.findall(r"\w+(?=\()", code) or [code]:
                    self.assertRegex(text, rf"\b{name}\b", row)
            for name in re.findall(r"`((?:model|norm|train)\.\w+)", key):
                self.assertIn(f"| `{name}` |", keys, row)

    def test_the_property_of_the_reader_is_the_one_that_is_tested(self):
        test = (ROOT / "tests/ops/own_property_test.cpp").read_text()
        sample = re.search(r"^```cpp\n(.*?)^```", (ROOT / "docs/verify.md").read_text(), re.M | re.S)[1]
        self.assertIn(sample, test)

    def test_nothing_is_left_to_write_of_a_new_operation(self):
        files = [path for top in ("ops", "docs", "tests/ops") for path in (ROOT / top).rglob("*")
                 if path.suffix in (".h", ".cpp", ".cu", ".md")]
        self.assertGreater(len(files), 200)
        self.assertEqual([f"{path.relative_to(ROOT)}: REPLACE of scripts/new_op" for path in files
                          if re.search(r"\bREPLACE\b", path.read_text())], [])

    def test_the_house_can_be_measured(self):
        printed = subprocess.run([ROOT / "scripts/house"], check=True, capture_output=True, text=True).stdout
        for row in (r"\| `engine/` \| \d+ \| [\d,]+ \|", r"\| lines of tests \| [\d,]+ \|",
                    r"\| \*\*two hours more\*\* \| ", r"\| \*\*together\*\* \| [\d,]+ \|"):
            self.assertRegex(printed, row)

    def test_the_reading_path_lists_or_explains_what_it_leans_on(self):
        house = runpy.run_path(str(ROOT / "scripts/house"), run_name="house")
        self.assertEqual(list(house["path_faults"]()), [])
        page = house["text"]("docs/reading_order.md")
        for broken, fault in (
                (page.replace("[engine/contains.h](../engine/contains.h)", ""),
                 "train/loop/trainer.cpp needs engine/contains.h, which the page neither lists nor explains"),
                (page.replace("models/normalizers/normalizer.cpp](", "normalizer.cpp](../engine/contains.h"),
                 "its text needs models/normalizers/normalizer.cpp, which the page neither lists nor explains")):
            self.assertEqual(list(house["path_faults"](broken))[:1], [f"docs/reading_order.md: {fault}"])

    def broken_by(self, path, line):
        files = sources()
        files[path] += line + "\n"
        return rules.violations(files)

    def test_an_include_that_leads_up_is_found(self):
        self.assertEqual(self.broken_by("engine/tape.h", '#include "ops/linear/linear.h"'),
                         ["engine/tape.h includes ops/linear/linear.h: engine may not include ops/linear"])
        self.assertEqual(self.broken_by("train/runs/directory.cpp", '#include "train/commands/commands.h"'),
                         ["train/runs/directory.cpp includes train/commands/commands.h: "
                          "train/runs may not include train/commands"])

    def test_an_operation_that_closes_a_circle_is_found(self):
        self.assertEqual(self.broken_by("ops/dropout/dropout.cpp", '#include "ops/channel_norm/channel_norm.h"'),
                         ["ops/dropout/dropout.cpp includes ops/channel_norm/channel_norm.h: "
                          "ops/dropout may not include ops/channel_norm"])

    def test_a_plain_kernel_that_knows_a_fast_one_is_found(self):
        self.assertEqual(self.broken_by("ops/softmax/softmax.cpp", '#include "engine/cuda/fast/row_op.h"'),
                         ["ops/softmax/softmax.cpp includes engine/cuda/fast/row_op.h: "
                          "ops/softmax may not include engine/cuda/fast"])

    def test_a_library_in_another_folder_is_found(self):
        path = "ops/linear/linear.cpp"
        self.assertEqual(self.broken_by(path, "#include <nlohmann/json.hpp>"),
                         [f"{path} includes <nlohmann/json.hpp>: ops/linear may not include that library"])
        self.assertEqual(self.broken_by(path, "#include <boost/any.hpp>"),
                         [f"{path} includes <boost/any.hpp>: tests/structure/rules.py does not know the library"])
        self.assertEqual(self.broken_by(path, "#  include <sys/file.h>"),
                         [f"{path} includes <sys/file.h>: ops/linear may not use the operating system"])
        self.assertEqual(self.broken_by(path, "#include <functional>"), [])

    def test_rules_that_allow_a_circle_are_found(self):
        with mock.patch.dict(rules.ALLOWED, {"engine/cpu": ["ops"]}):
            self.assertEqual(rules.violations({}), ["the rules let engine/cpu include ops, which comes after it"])
        with mock.patch.dict(rules.OPS, {"ops/total": ["ops/affine"]}):
            self.assertIn("the rules let ops/affine include ops/total, which comes after it", rules.violations({}))

    def test_rings_of_folders_are_found(self):
        def ring(*includes):
            return list(rules.rings({path: f'#include "{other}"\n' for path, other in includes}))
        a, b, c = ("train/data/text/a.h", "train/config/b.h"), ("train/config/b.h", "train/loop/c.h"), (
            "train/loop/c.h", "train/data/d.h")
        self.assertEqual(ring(a, b), [])
        self.assertEqual(ring(a, b, c), [
            "a ring of folders, train/config -> train/loop -> train/data -> train/config: train/config/b.h includes "
            "train/loop/c.h, train/loop/c.h includes train/data/d.h, train/data/text/a.h includes train/config/b.h"])
        self.assertEqual(len(ring(*[(f"{x}/1/1.h", f"{y}/2/2.h") for x, y in ("ab", "ba")])), 1)

    def test_permissions_that_nothing_uses_are_found(self):
        def unused(table, row):
            with mock.patch.dict(table, row):
                return list(rules.unused(sources()))
        self.assertEqual(unused(rules.ALLOWED, {"models/vit": rules.ALLOWED["models/vit"] + ["engine/cuda"]}),
                         ["models/vit may include engine/cuda, and does not"])
        self.assertEqual(unused(rules.OPS, {"ops/reshape": ["ops/total"]}),
                         ["ops/reshape may include ops/total, and does not"])
        self.assertEqual(unused(rules.LIBRARIES, {"png.h": rules.LIBRARIES["png.h"] + ["train/runs"]}),
                         ["train/runs may include <png.h...>, and does not"])
        self.assertRegex(unused(rules.LARGE_FOLDERS, {"models/vit": 30})[0], "^models/vit may have 30 files, and has ")

    def test_folders_of_many_files_are_found(self):
        self.assertEqual(rules.violations({f"models/vit/{i}.h": "" for i in range(25)}),
                         ["models/vit has 25 files, more than 24"])

    def test_new_folders_are_found(self):
        self.assertEqual(rules.violations({"train/misc/x.h": "#pragma once\n"}),
                         ["train/misc/x.h: tests/structure/rules.py does not know the folder train/misc"])

    def test_long_files_and_functions_are_found(self):
        long = "void f(int a) {\n" + "  g(a);\n" * 60 + "}\n"
        self.assertEqual(rules.violations({"engine/x.cpp": long}), ["engine/x.cpp:1: f has 62 lines, more than 60"])
        self.assertEqual(rules.violations({"engine/x.cpp": "\n" * 301}), ["engine/x.cpp has 301 lines, more than 300"])
        self.assertEqual(rules.violations({f"engine/{i}.h": "\n" * 300 for i in range(7)}),
                         ["the core, the files of engine/ itself, has 2100 lines, more than 1540"])

    def test_fast_kernels_without_a_speed_up_are_found(self):
        path = "ops/softmax/fast/softmax_cpu.cpp"
        self.assertEqual(rules.violations({path: "// Faster.\n"}), [
            f"{path}: a fast kernel needs a comment with its speed-up, or that it has not been measured"])
        self.assertEqual(rules.violations({path: "// Kept.\n// The speed-up is 2.\n"}), [])

    def test_functions_are_recognized(self):
        text = '''namespace a {
struct S {
  int x = f(1);
  S(int y)
      : x(y) {
    const auto g = [&](int z) {
      return "}" + z;
    };
  }
  int get() const { return x; }
  const Tensor t = Tensor::of<int>({2}, {1, 2});
};
constexpr int kTable[] = {1, 2};
TEST(Suite, Name) {  // with a }
  if (a) {
  }
}
}  // namespace a
'''
        self.assertEqual(rules.functions(text), [("S", 4, 6), ("get", 10, 1), ("TEST", 14, 4)])


if __name__ == "__main__":
    unittest.main()
