#include "launcher/run/stacks/function_name.h"

#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("a part of a stack frame is printable and short") {
  CHECK(frame_text("a\x1b[31m\nb") == "a\\x1b[31m\\x0ab");
  CHECK(frame_text(std::string(1000, 'x')).size() == kFramePartBytes);
}

TEST_CASE("brackets are matched with brackets of the same kind") {
  const auto close = [](std::string_view text, std::size_t at) { return closing_brackets(text)[at]; };
  CHECK(close("f(a[1], g(b))", 1) == 12);
  CHECK(close("f<(1>2)>()", 1) == 7);
  CHECK(close("f<(1<2)>()", 1) == 7);
  CHECK(close("f<&A::operator->, 3>()", 1) == 19);
  CHECK(close("f<&A::operator()>()", 1) == 16);
  CHECK(close("f(a->b)", 1) == 6);
  CHECK(close("f(\") at\", '(', '\\'')", 1) == 19);
  CHECK(close("f(it's)", 1) == 6);
  CHECK(close("f(", 1) == std::string_view::npos);
  CHECK(close("operator< <int>", 8) == std::string_view::npos);
  CHECK(close("operator< <int>", 10) == 14);
  CHECK(close("my_operator<int>", 11) == 15);
}

TEST_CASE("the name is extracted from a full function signature") {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"main", "main"},
      {"", ""},
      {"train_epoch(Model&)", "train_epoch"},
      {"ddp::ProcessGroup::all_reduce(std::span<float, 18446744073709551615ul>, ddp::Options const&)",
       "ddp::ProcessGroup::all_reduce"},
      {"bool ddp::ready<int>(int) const", "ddp::ready<int>"},
      {"std::vector<int, std::allocator<int> >& ddp::values<int>()", "ddp::values<int>"},
      {"model::Group<float>::all_reduce(std::function<float (float, float)> const&)",
       "model::Group<float>::all_reduce"},
      {"ddp::(anonymous namespace)::wait(int)", "ddp::(anonymous namespace)::wait"},
      {"(anonymous namespace)::wait(int)", "(anonymous namespace)::wait"},
      {"main::{lambda()#1}::operator()() const", "main::{lambda()#1}::operator()"},
      {"train(int)::{lambda(int)#2}::operator()(int) const", "train::{lambda(int)#2}::operator()"},
      {"Model::train() const::{lambda()#1}::operator()() const", "Model::train::{lambda()#1}::operator()"},
      {"main()::'lambda'(int)::operator()(int) const", "main::'lambda'::operator()"},
      {"A::operator<<(int)", "A::operator<<"},
      {"bool operator< <int>(A<int> const&, A<int> const&)", "operator< <int>"},
      {"Text::operator std::string() const", "Text::operator std::string"},
      {"operator new(unsigned long)", "operator new"},
      {"operator delete[](void*)", "operator delete[]"},
      {"non-virtual thunk to ddp::Work::wait()", "ddp::Work::wait"},
      {"train(int) [clone .cold]", "train"},
      {"name[abi:cxx11](int)", "name"},
      {"decltype (f(x)) call<A>(A)", "call<A>"},
      {"train_epoch.<locals>.<listcomp>", "train_epoch.<locals>.<listcomp>"},
      {"<module>", "<module>"},
      {"futex_wait.constprop.0", "futex_wait.constprop.0"},
      // A name that is not understood stays unchanged.
      {"int (*pick<int>(int))(char)", "int (*pick<int>(int))(char)"},
      {"decltype ({parm#1}(char const ((anonymous namespace)::call<A>(A)) [2]{(char const)120}, (char)99))",
       "decltype ({parm#1}(char const ((anonymous namespace)::call<A>(A)) [2]{(char const)120}, (char)99))"},
  };
  for (const auto& [function, name] : names) CHECK(without_parameters(function) == name);
}

TEST_CASE("a long function name is shortened step by step") {
  CHECK(short_function_name("train_epoch(Model&)") == "train_epoch(Model&)");
  CHECK(short_function_name("train_epoch(Model&)", 15) == "train_epoch");
  CHECK(short_function_name(
            "std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda()#1}> > >::_M_run()") ==
        "std::thread::_State_impl<...>::_M_run");
  CHECK(short_function_name("A<int>::B<std::map<std::string, std::vector<int> > >::reduce(int)", 40) ==
        "A<int>::B<...>::reduce");
  CHECK(short_function_name("A<int>::reduce<float>", 18) == "...::reduce<...>");
  const std::string space = "a_namespace_with_quite_a_long_name::";
  CHECK(short_function_name(space + space + "wait(int)") == "...::" + space + "wait");
  CHECK(short_function_name(std::string(100, 'f')) == std::string(57, 'f') + "...");
  CHECK(short_function_name("f\x1b(int)") == "f\\x1b(int)");
}

TEST_CASE("short_function_name() shortens random names to printable text within the limit") {
  std::mt19937 random(4711);
  constexpr std::string_view kParts[] = {"(",
                                         ")",
                                         "<",
                                         ">",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         " ",
                                         "::",
                                         "operator",
                                         "->",
                                         "\"",
                                         "'",
                                         "\\",
                                         "const",
                                         "a",
                                         "~",
                                         "(anonymous namespace)",
                                         "\xc3",
                                         "\n"};
  for (int i = 0; i < 20'000; ++i) {
    std::string name;
    for (std::size_t size = random() % 30; size > 0; --size) name += kParts[random() % std::size(kParts)];
    CAPTURE(name);
    const std::string text = short_function_name(name, 20);
    if (text.size() > 20 || frame_text(text) != text) FAIL(text);
  }
  CHECK(short_function_name(std::string(1 << 20, '(')).size() == kFunctionNameBytes);
  CHECK(short_function_name(std::string(1 << 20, '\'')).size() == kFunctionNameBytes);
}
