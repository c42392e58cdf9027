#include "launcher/run/stacks/stack_text.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

using Frames = std::vector<std::string>;

// This is the output of py-spy 0.4.3 for a program that sleeps in two threads.
constexpr const char* kPySpy = R"([
  {"pid": 10224, "thread_id": 140140538484416, "thread_name": "loader-0", "os_thread_id": 10272, "active": false,
   "owns_gil": false, "frames": [
    {"name": "fetch", "filename": "/home/u/loader.py", "module": null, "short_filename": "loader.py", "line": 3,
     "locals": null, "is_entry": true, "is_shim_entry": false},
    {"name": "Thread.run", "filename": "/usr/lib/python3.11/threading.py", "module": null,
     "short_filename": "threading.py", "line": 982, "locals": null, "is_entry": false, "is_shim_entry": false},
    {"name": "Thread._bootstrap_inner", "filename": "/usr/lib/python3.11/threading.py", "module": null,
     "short_filename": "threading.py", "line": 1045, "locals": null, "is_entry": false, "is_shim_entry": false},
    {"name": "Thread._bootstrap", "filename": "/usr/lib/python3.11/threading.py", "module": null,
     "short_filename": "threading.py", "line": 1002, "locals": null, "is_entry": true, "is_shim_entry": true}],
   "process_info": null},
  {"pid": 10224, "thread_id": 140140553431936, "thread_name": "MainThread", "os_thread_id": 10224, "active": false,
   "owns_gil": false, "frames": [
    {"name": "Model.forward", "filename": "/home/u/loader.py", "module": null, "short_filename": "loader.py", "line": 6,
     "locals": null, "is_entry": false, "is_shim_entry": false},
    {"name": "train_epoch.<locals>.<listcomp>", "filename": "/home/u/loader.py", "module": null,
     "short_filename": "loader.py", "line": 8, "locals": null, "is_entry": false, "is_shim_entry": false},
    {"name": "train_epoch", "filename": "/home/u/loader.py", "module": null, "short_filename": "loader.py", "line": 8,
     "locals": null, "is_entry": false, "is_shim_entry": false},
    {"name": "<module>", "filename": "/home/u/loader.py", "module": null, "short_filename": "loader.py", "line": 10,
     "locals": null, "is_entry": true, "is_shim_entry": true}],
   "process_info": null}
])";

// This is the output of py-spy with --native.
constexpr const char* kPySpyNative = R"([{"pid": 10224, "thread_id": 140140553431936, "thread_name": "MainThread",
  "os_thread_id": 10224, "active": false, "owns_gil": false, "frames": [
    {"name": "clock_nanosleep", "filename": "/usr/lib/x86_64-linux-gnu/libc.so.6",
     "module": "/usr/lib/x86_64-linux-gnu/libc.so.6", "short_filename": "libc.so.6", "line": 0, "locals": null,
     "is_entry": true, "is_shim_entry": true},
    {"name": "Model.forward", "filename": "/home/u/loader.py", "module": null, "short_filename": "loader.py", "line": 6,
     "locals": null, "is_entry": false, "is_shim_entry": false},
    {"name": "0x7f750364524a", "filename": "/usr/lib/x86_64-linux-gnu/libc.so.6",
     "module": "/usr/lib/x86_64-linux-gnu/libc.so.6", "short_filename": "libc.so.6", "line": 0, "locals": null,
     "is_entry": true, "is_shim_entry": true}], "process_info": null}])";

// This is the output of gdb 13.1 for a C++ program compiled with -O1 -g.
constexpr const char* kGdb = R"text([New LWP 10229]
[Thread debugging using libthread_db enabled]
Using host libthread_db library "/lib/x86_64-linux-gnu/libthread_db.so.1".
__futex_abstimed_wait_common64 (private=0, cancel=true, abstime=0x0, op=393, expected=0, futex_word=0x7fff10bdae50) at ./nptl/futex-internal.c:57
57	./nptl/futex-internal.c: No such file or directory.

Thread 2 (Thread 0x7f6253a1d6c0 (LWP 10229) "data (loader)"):
#0  futex_wait (private=0, expected=2, futex_word=0x55e22fee10c0 <a_mutex>) at ../sysdeps/nptl/futex-internal.h:146
#1  __GI___lll_lock_wait (futex=futex@entry=0x55e22fee10c0 <a_mutex>, private=0) at ./nptl/lowlevellock.c:49
#2  0x00007f6253aaa482 in lll_mutex_lock_optimized (mutex=0x55e22fee10c0 <a_mutex>) at ./nptl/pthread_mutex_lock.c:48
#3  ___pthread_mutex_lock (mutex=0x55e22fee10c0 <a_mutex>) at ./nptl/pthread_mutex_lock.c:93
#6  std::lock_guard<std::mutex>::lock_guard (__m=..., this=<synthetic pointer>) at /usr/include/c++/12/bits/std_mutex.h:229
#7  load (n=n@entry=2) at hung.cpp:20
#8  0x000055e22fede423 in operator() (__closure=<optimized out>) at hung.cpp:26
#9  std::__invoke_impl<void, main()::<lambda()> > (__f=...) at /usr/include/c++/12/bits/invoke.h:61
#13 std::thread::_State_impl<std::thread::_Invoker<std::tuple<main()::<lambda()> > > >::_M_run(void) (this=<optimized out>) at /usr/include/c++/12/bits/std_thread.h:210
#14 0x00007f6253cd44a3 in ?? () from /lib/x86_64-linux-gnu/libstdc++.so.6
#15 0x00007f6253aa71f5 in start_thread (arg=<optimized out>) at ./nptl/pthread_create.c:442
#16 0x00007f6253b278ec in clone3 () at ../sysdeps/unix/sysv/linux/x86_64/clone3.S:81

Thread 1 (Thread 0x7f6253e52740 (LWP 10225) "hung_g"):
#0  __futex_abstimed_wait_common64 (private=0, cancel=true, abstime=0x0, op=393, expected=0, futex_word=0x7fff10bdae50) at ./nptl/futex-internal.c:57
#3  0x00007f6253aa65d8 in __pthread_cond_wait_common (abstime=0x0, clockid=0, mutex=0x7fff10bdae00, cond=0x7fff10bdae28) at ./nptl/pthread_cond_wait.c:503
#5  0x000055e22fede576 in std::condition_variable::wait<model::Group<float>::all_reduce(std::vector<float, std::allocator<float> >&, std::function<float (float, float)> const&)::{lambda()#1}>(std::unique_lock<std::mutex>&, model::Group<float>::all_reduce(std::vector<float, std::allocator<float> >&, std::function<float (float, float)> const&)::{lambda()#1}) (__p=..., __lock=..., this=0x7fff10bdae28) at /usr/include/c++/12/condition_variable:102
#6  model::Group<float>::all_reduce(std::vector<float, std::allocator<float> >&, std::function<float (float, float)> const&) (this=this@entry=0x7fff10bdae00, values=std::vector of length 3, capacity 3 = {...}) at hung.cpp:14
#7  0x000055e22fede36e in train_epoch (g=..., name=name@entry=0x55e22fedf012 "a (b) \"c\" at x.cpp:3") at hung.cpp:22
#8  0x000055e22fede4de in main () at hung.cpp:28
[Inferior 1 (process 10225) detached]
)text";

// This is the output of gdb for the same program without -g, for the stripped one, and for a static one.
constexpr const char* kGdbBare = R"text(
Thread 1 (process 10908 "one_g"):
#0  0x0000000000430050 in pause ()
#1  0x0000000000401625 in on_signal () at one.cpp:4
#2  <signal handler called>
#3  0x0000564a2aaca1e0 in A::operator<<(int) ()
#4  0x000000000040168c in A::operator<< (this=0x7ffc044d973f) at one.cpp:5
#5  0x00000000004016d0 in A::operator() (this=0x7ffc044d973f, s=0x479004 "a) at b.cpp:3", c=40 '(') at one.cpp:5
#6  0x0000000000401676 in (anonymous namespace)::call<A> (f=...) at one.cpp:6
#7  0x0000564a2aaca1ca in decltype ({parm#1}(char const ((anonymous namespace)::call<A>(A)) [2]{(char const)120}, (char)99)) ()
#8  0x00005645fb526576 in model::Group<float>::all_reduce(std::vector<float, std::allocator<float> >&, std::function<float (float, float)> const&) ()
#9  0x00005622d04ff36e in ?? ()
#10 0x00007f55dca4524a in __libc_start_call_main (main=main@entry=0x5622d04ff44e, argc=argc@entry=1, argv=argv@entry=0x7ffe9c1ecf38) at ../sysdeps/nptl/libc_start_call_main.h:58
#11 0x00005622d04ff161 in ?? ()
)text";

// This is the output of eu-stack 0.188 -s -m for the first of these programs. Frame #8 is from the stripped one, and
// the other thread is without -s -m.
constexpr const char* kEuStack = R"text(PID 10225 - process
TID 10225:
#0  0x00007f6253aa3f16 __futex_abstimed_wait_common - /usr/lib/x86_64-linux-gnu/libc.so.6
    ./nptl/futex-internal.c:57:12
#1  0x00007f6253aa65d8 pthread_cond_wait@@GLIBC_2.3.2 - /usr/lib/x86_64-linux-gnu/libc.so.6
    ./nptl/pthread_cond_wait.c:503:10
#2  0x000055e22fede576 model::Group<float>::all_reduce(std::vector<float, std::allocator<float> >&, std::function<float (float, float)> const&) - /home/u/hung_g
    /usr/include/c++/12/condition_variable:102:8
#3  0x000055e22fede36e train_epoch(model::Group<float>&, char const*) - /home/u/hung_g
    /home/u/hung.cpp:22:46
#4  0x000055e22fede4de main - /home/u/hung_g
    /home/u/hung.cpp:28:21
#5  0x00007f6253a4524a __libc_start_call_main - /usr/lib/x86_64-linux-gnu/libc.so.6
    ../sysdeps/nptl/libc_start_call_main.h:58:16
#6  0x00007f6253a45305 __libc_start_main@@GLIBC_2.34 - /usr/lib/x86_64-linux-gnu/libc.so.6
    ../csu/libc-start.c:360:3
#7  0x000055e22fede161 _start - /home/u/hung_g
#8  0x00005622d04ff576 - /home/u/hung - s
TID 10229:
#0  0x00007f6253aa412b __GI___lll_lock_wait
#1  0x00007f6253cd44a3
)text";

template <typename Parse>
void expect_no_crash(Parse parse, std::string_view text) {
  std::mt19937 random(4711);
  for (int i = 0; i < 500; ++i) {
    std::string changed(text.substr(0, text.size() - random() % text.size() / 4));
    for (int flips = 0; flips < 20; ++flips) changed[random() % changed.size()] = static_cast<char>(random() % 256);
    for (const ThreadStack& thread : parse(changed)) {
      for (const std::string& frame : thread.frames) {
        if (frame.find_first_of("\n\x1b") != std::string::npos || frame.size() > 250) FAIL(frame);
      }
    }
  }
}

}  // namespace

TEST_CASE("the stacks of py-spy are parsed with the main thread first") {
  const std::vector<ThreadStack> expected = {
      {10224,
       "MainThread",
       {"Model.forward (loader.py:6)", "train_epoch.<locals>.<listcomp> (loader.py:8)", "train_epoch (loader.py:8)",
        "<module> (loader.py:10)"}},
      {10272,
       "loader-0",
       {"fetch (loader.py:3)", "Thread.run (python3.11/threading.py:982)",
        "Thread._bootstrap_inner (python3.11/threading.py:1045)", "Thread._bootstrap (python3.11/threading.py:1002)"}}};
  CHECK(parse_py_spy(kPySpy) == expected);
  const auto native = parse_py_spy(kPySpyNative);
  REQUIRE(native.size() == 1);
  CHECK(native[0].frames == Frames{"clock_nanosleep (libc.so.6)", "Model.forward (loader.py:6)", "?? (libc.so.6)"});
}

TEST_CASE("fields that py-spy leaves out are tolerated") {
  const auto threads = parse_py_spy(R"([null, 3, {"pid": 7}, {"pid": "x", "os_thread_id": null, "thread_name": null,
    "frames": [null, {}, {"name": "f", "filename": "/a/b.py", "short_filename": null, "line": 4}, {"name": "0x12"},
               {"name": "g\u001b[1m", "line": -1}, {"name": 3, "line": "x", "short_filename": "c.py"},
               {"name": "h", "line": 99999999999999999999, "filename": "d.py"}]}])");
  REQUIRE(threads.size() == 1);
  CHECK(threads[0].tid == 0);
  CHECK(threads[0].name.empty());
  CHECK(threads[0].frames == Frames{"??", "f (b.py:4)", "?? (0x12)", "g\\x1b[1m", "?? (c.py)", "h (d.py)"});
  for (const char* text : {"", "[", "{}", "3", "null", "[1]", "[{\"frames\": 1}]", "Error: no such process"}) {
    CHECK(parse_py_spy(text).empty());
  }
}

TEST_CASE("the stacks of gdb are parsed with the first thread first") {
  const std::vector<ThreadStack> expected = {
      {10225,
       "hung_g",
       {"__futex_abstimed_wait_common64 (futex-internal.c:57)", "__pthread_cond_wait_common (pthread_cond_wait.c:503)",
        "std::condition_variable::wait<...> (condition_variable:102)", "model::Group<float>::all_reduce (hung.cpp:14)",
        "train_epoch (hung.cpp:22)", "main (hung.cpp:28)"}},
      {10229,
       "data (loader)",
       {"futex_wait (futex-internal.h:146)", "__GI___lll_lock_wait (lowlevellock.c:49)",
        "lll_mutex_lock_optimized (pthread_mutex_lock.c:48)", "___pthread_mutex_lock (pthread_mutex_lock.c:93)",
        "std::lock_guard<std::mutex>::lock_guard (std_mutex.h:229)", "load (hung.cpp:20)", "operator() (hung.cpp:26)",
        "std::__invoke_impl<void, main()::<lambda()> > (invoke.h:61)",
        "std::thread::_State_impl<...>::_M_run (std_thread.h:210)", "?? (libstdc++.so.6)",
        "start_thread (pthread_create.c:442)", "clone3 (clone3.S:81)"}}};
  CHECK(parse_gdb(kGdb) == expected);
}

TEST_CASE("incomplete stacks of gdb are parsed") {
  const auto threads = parse_gdb(kGdbBare);
  REQUIRE(threads.size() == 1);
  CHECK(threads[0].tid == 10908);
  CHECK(threads[0].name == "one_g");
  CHECK(threads[0].frames == Frames{"pause", "on_signal (one.cpp:4)", "<signal handler called>", "A::operator<<(int)",
                                    "A::operator<< (one.cpp:5)", "A::operator() (one.cpp:5)",
                                    "(anonymous namespace)::call<A> (one.cpp:6)",
                                    "decltype ({parm#1}(char const ((anonymous namespace)::cal...",
                                    "model::Group<float>::all_reduce", "?? (0x00005622d04ff36e)",
                                    "__libc_start_call_main (libc_start_call_main.h:58)", "?? (0x00005622d04ff161)"});
}

TEST_CASE("malformed lines of gdb are tolerated") {
  CHECK(parse_gdb("").empty());
  CHECK(parse_gdb("ptrace: No such process.\n#0  main () at a.cpp:1\n").empty());
  const auto threads = parse_gdb(
      "Thread 3 (LWP 12):\r\n#0\n#x  f ()\n#1  f (x=\"\\\"\" () at a.cpp:1\nThread 99999999999 (LWP 1):\n"
      "Thread x\nThread 1\n#2 g () from /lib/my lib.so (1)\n(More stack frames follow...)\n"
      "Backtrace stopped: previous frame inner to this frame (corrupt stack?)\nThread 2 (Thread 0x1 (LWP 5) \"a\x1b\" "
      "\"\"):");
  REQUIRE(threads.size() == 2);
  CHECK(threads[0] == ThreadStack{5, "a\\x1b\" \"", {}});
  CHECK(threads[1].tid == 12);
  REQUIRE(threads[1].frames.size() == 2);
  CHECK(threads[1].frames[1] == "g (my lib.so (1))");
}

TEST_CASE("the stacks of eu-stack are parsed with the first thread first") {
  const std::vector<ThreadStack> expected = {
      {10225,
       "",
       {"__futex_abstimed_wait_common (futex-internal.c:57)", "pthread_cond_wait (pthread_cond_wait.c:503)",
        "model::Group<float>::all_reduce (condition_variable:102)",
        "train_epoch(model::Group<float>&, char const*) (hung.cpp:22)", "main (hung.cpp:28)",
        "__libc_start_call_main (libc_start_call_main.h:58)", "__libc_start_main (libc-start.c:360)", "_start (hung_g)",
        "?? (hung - s)"}},
      {10229, "", {"__GI___lll_lock_wait", "?? (0x00007f6253cd44a3)"}}};
  CHECK(parse_eu_stack(kEuStack) == expected);
  std::string other_way_round = kEuStack;
  other_way_round.replace(4, 5, "10229");
  CHECK(parse_eu_stack(other_way_round)[0].tid == 10229);
  CHECK(parse_eu_stack("").empty());
  CHECK(parse_eu_stack("eu-stack: dwfl_linux_proc_attach pid 1: Operation not permitted\n#0  0x12 f\n").empty());
}

TEST_CASE("endless threads and frames are cut, but never the first thread") {
  std::string gdb;
  std::string eu_stack = "PID 1000 - process\n";
  std::string py_spy = "[";
  for (int i = 1000; i > 0; --i) {
    const std::string number = std::to_string(i);
    gdb += "Thread " + number + " (LWP " + number + "):\n#0  f () at a.cpp:" + number + "\n";
    eu_stack += "TID " + std::to_string(2000 - i) + ":\n#0  0x12 f\n";
    py_spy += R"({"pid": 1000, "os_thread_id": )" + std::to_string(2000 - i) + R"(, "frames": []},)";
  }
  for (int i = 0; i < 1000; ++i) gdb += "#1  g () at a.cpp:1\n";
  py_spy.back() = ']';
  CHECK(parse_gdb(gdb).size() == kStackThreads);
  CHECK(parse_gdb(gdb)[0].tid == 1);
  CHECK(parse_gdb(gdb)[0].frames.size() == kStackFrames);
  CHECK(parse_eu_stack(eu_stack).size() == kStackThreads);
  CHECK(parse_eu_stack(eu_stack)[0].tid == 1000);
  CHECK(parse_py_spy(py_spy).size() == kStackThreads);
  CHECK(parse_py_spy(py_spy)[0].tid == 1000);
  const auto long_line = parse_gdb("Thread 1 (LWP 1):\n#0  " + std::string(1 << 20, '(') + "\n#1  g ()\n");
  CHECK(long_line[0].frames.size() == 2);
}

TEST_CASE("stack parsers turn damaged output of py-spy, gdb and eu-stack into short frames of one line") {
  expect_no_crash(parse_py_spy, kPySpy);
  expect_no_crash(parse_gdb, kGdb);
  expect_no_crash(parse_gdb, kGdbBare);
  expect_no_crash(parse_eu_stack, kEuStack);
}

TEST_CASE("the last complete answer of the stack reader counts") {
  const std::string first = R"x({"pid":3,"threads":[{"tid":7,"frames":["poll (libc.so.6+0x1)","main (a+0x2)"]}]})x";
  const std::string second = R"x({"pid":3,"threads":[{"tid":7,"frames":["poll (libc.so.6+0x1)","main (a.cpp:3)"]}]})x";
  const std::string other = R"x({"pid":4,"threads":[{"tid":4,"frames":["main (b+0x2)"]}]})x";
  CHECK(parse_stack_reader(first + "\n" + second + "\n").at(3).at(0).frames.at(1) == "main (a.cpp:3)");
  CHECK(parse_stack_reader(first + "\n" + second).at(3).at(0).frames.at(1) == "main (a+0x2)");
  const auto both = parse_stack_reader(first + "\n" + other + "\n" + second);
  REQUIRE(both.size() == 2);
  CHECK(both.at(3) == std::vector{ThreadStack{7, "", {"poll (libc.so.6+0x1)", "main (a+0x2)"}}});
  CHECK(both.at(4) == std::vector{ThreadStack{4, "", {"main (b+0x2)"}}});
  for (const char* text : {"", "\n", "[]\n", "[1]\n", "{}\n", "garbage\n", "{\"threads\":1}\n",
                           "{\"pid\":1,\"threads\":[{\"tid\":7}]}\n"}) {
    CHECK(parse_stack_reader(text).empty());
  }
}

TEST_CASE("the lines of a rank's stacks show its threads, frames and gaps") {
  RankStacks stacks;
  stacks.source = StackSource::py_spy;
  stacks.threads = {{42, "python", {"wait (work.cpp:7)", "train (train.py:83)"}}, {0, "", {"?? (0x1)"}}};
  stacks.missing = {"gdb: not found in PATH"};
  CHECK(stack_lines(stacks) == std::vector<std::string>{"source: py-spy", "thread 42 (python):", "  wait (work.cpp:7)",
                                                        "  train (train.py:83)", "thread:", "  ?? (0x1)",
                                                        "not available: gdb: not found in PATH"});
  CHECK(stack_lines({}).empty());
}
