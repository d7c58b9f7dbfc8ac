"""Tests that functions.py finds the functions of a text, with their lines and numbers of parameters."""

import unittest

from functions import Unreadable, functions


def listed(text):
    return [(function.name, function.first, function.last, function.parameters) for function in functions(text)]


class Lengths(unittest.TestCase):
    def test_definition_ends_with_its_body(self):
        self.assertEqual([("F", 2, 6, 1), ("G", 7, 7, 0)],
                         listed("\nint F(\n    int a) {\n  if (a) {\n  }\n}\nvoid G() {}\n"))

    def test_template_and_attribute_are_part_of_it(self):
        self.assertEqual([("F", 1, 3, 1)], listed("template <typename T, int kN = (1 > 0)>\n[[nodiscard]]\nint F(T) {}\n"))

    def test_constructor_with_initialisers_ends_with_its_body(self):
        self.assertEqual([("A", 1, 3, 2), ("B", 4, 4, 0)],
                         listed("A::A(int a, int b) : a_{a},\n  b_(b), c_{b} {\n}\nvoid B() {}\n"))

    def test_function_try_block_ends_with_its_last_handler(self):
        self.assertEqual([("F", 1, 5, 0), ("G", 6, 6, 0)],
                         listed("int F() try {\n} catch (const A& a) {\n} catch (...) {\n  x();\n}\nvoid G() {}\n"))

    def test_brackets_in_texts_and_comments_do_not_count(self):
        self.assertEqual([("F", 1, 5, 0), ("G", 6, 6, 0)],
                         listed('void F() {\n  // }\n  /* } */ x = "}\\"}"; c = \'}\';\n  r = R"a(})")a"; n = 1\'000;\n}\n'
                                "void G() {}\n"))

    def test_first_branch_of_a_condition_counts(self):
        self.assertEqual([("F", 4, 11, 1), ("G", 12, 12, 0)],
                         listed("#define A \\\n  {\n#if A\nint F(int a) {\n#elif B\nint F() {{\n#if C\n{\n#endif\n#endif\n}\n"
                                "void G() {}\n"))

    def test_methods_of_nested_classes_are_found(self):
        self.assertEqual([("F", 4, 4, 1), ("G", 5, 5, 2), ("operator==", 6, 6, 1), ("operator()", 7, 7, 1)],
                         listed("namespace a::b {\nclass A final : public B<int(int)> {\n public:\n  void F(int) const {}\n"
                                "  struct C { int x{3}; int y = {4}; virtual void G(int, int) = 0; };\n"
                                "  bool operator==(const A&) const = default;\n"
                                "  void operator()(int a) { a(); }\n};\n}  // namespace a::b\n"))

    def test_declared_friend_is_a_function(self):
        self.assertEqual([("operator<<", 2, 3, 2), ("F", 4, 4, 0)],
                         listed("class A {\n  friend S& operator<<(S& s, const A& a) {\n  }\n  void F();\n};\n"))


class Parameters(unittest.TestCase):
    def count(self, text):
        (function,) = functions(text)
        return function.parameters

    def test_none_are_counted_as_none(self):
        self.assertEqual(0, self.count("void F();"))
        self.assertEqual(0, self.count("void F(void);"))

    def test_commas_inside_a_parameter_separate_none(self):
        self.assertEqual(4, self.count("int F(std::map<int, A<B, C>> a, void (*f)(int, int), B b = {1, 2}, C c = g(1, 2));"))

    def test_shifts_and_comparisons_in_defaults_hide_none(self):
        self.assertEqual(3, self.count("int F(int a = 1 << 4, bool b = kA < kB, int c = 0);"))

    def test_result_with_a_list_of_its_own_is_passed_over(self):
        self.assertEqual(1, self.count("std::function<void(int, int)> F(int a);"))
        self.assertEqual(2, self.count("auto F(int a, int b) -> std::array<int, 3> { return {}; }"))
        self.assertEqual(1, self.count("explicit(kIs) A(int a);"))

    def test_names_that_are_no_functions_have_none(self):
        self.assertEqual([], functions("using F = int (*)(int, int);\ntypedef int (*G)(int);\nstatic_assert(sizeof(A) == 3);\n"
                                       "enum class E : int { kA = f(1), kB };\nconst std::map<int, int> kM = {{1, 2}};\n"
                                       "struct S { int a; } s = {f(1)};\nint x{g(2)};\nint y = h(3, 4);\n"))

    def test_lambda_has_parameters_wherever_it_is(self):
        self.assertEqual([("F", 1, 3, 0), ("lambda", 2, 2, 3)],
                         listed("void F() {\n  const auto f = [&](int a, int b, int c) { return a; };\n}\n"))
        self.assertEqual([("lambda", 1, 1, 1)], listed("const auto kF = [](int a) -> int { return a; };"))
        self.assertEqual([("F", 1, 1, 0)], listed("void F() { table[i](a, b); }"))


class CLinkage(unittest.TestCase):
    def test_is_that_of_the_function_and_of_blocks_around_it(self):
        self.assertEqual([("F", True), ("G", True), ("H", True), ("I", False)],
                         [(function.name, function.is_c) for function in functions(
                             'extern "C" int F(int a) {}\nextern "C" {\nint G(int);\nnamespace a { int H() {} }\n}\nint I();\n')])


class Unbalanced(unittest.TestCase):
    def test_text_is_refused_with_its_line(self):
        for text, line in (("void F() {\n", 1), ("namespace a {\nvoid F();\n", 2), ("void F();\n}\n", 2),
                           ("int x = (3];\n", 1), ("int F()\n", 1), ("void F() {\n} catch", 2)):
            with self.subTest(text=text), self.assertRaises(Unreadable) as raised:
                functions(text)
            self.assertEqual(line, raised.exception.line, text)


if __name__ == "__main__":
    unittest.main()
