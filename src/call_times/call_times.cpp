// This library notes when collectives of PyTorch's Gloo backend begin and end, also those that PyTorch itself calls in
// C++. Code in the worker's Python (bindings/python/hook/sitecustomize.py) loads it before PyTorch. The dynamic linker
// then binds PyTorch's calls of the two functions below to this library, which calls PyTorch's own. They have the same
// names from PyTorch 1.13 to 2.14. In a version without them, nothing calls this library.
//
// It takes no lock of Python and calls no GPU. It uses no part of the C++ library, because PyTorch may come with its
// own. See docs/development/decisions/0067-the-linker-shows-when-collectives-end.md.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>  // NOLINT(modernize-deprecated-headers): clock_gettime is POSIX
#include <unistd.h>

#include "wire/call_times_layout.h"

namespace {

using ddp::wire::CallTime;
using ddp::wire::CallTimesLayout;

#define DDP_ENQUEUE                                                                                      \
  "_ZN4c10d16ProcessGroupGloo7enqueueEN3c1013intrusive_ptrINS0_9AsyncWorkENS1_6detail34intrusive_target" \
  "_default_null_typeIS3_EEEE"
#define DDP_FINISH "_ZN4c10d16ProcessGroupGloo9AsyncWork14finishWorkGlooEv"
constexpr const char* kSequence = "_ZNK4c10d16ProcessGroupGloo9AsyncWork17getSequencenumberEv";

std::atomic<CallTimesLayout*> memory{nullptr};

// Returns PyTorch's function. It is in libtorch_cpu.so, or in the library from which this one was called.
void* original(const char* name, void* caller) {
  Dl_info info{};
  ::dladdr(caller, &info);
  for (const char* const file : {"libtorch_cpu.so", info.dli_fname}) {
    void* const library = file == nullptr ? nullptr : ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    void* const function = library == nullptr ? nullptr : ::dlsym(library, name);
    if (function != nullptr) return function;
  }
  return nullptr;
}

void add(std::uint64_t work, std::uint64_t group, std::uint64_t sequence) {
  CallTimesLayout* const to = memory.load(std::memory_order_acquire);
  if (to == nullptr) return;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::uint64_t number = to->claimed.fetch_add(1, std::memory_order_relaxed);
  CallTime& time = to->times[number % ddp::wire::kCallTimes];
  time.number.store(0, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  time.at = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
  time.work = work;
  time.group = group;
  time.sequence = sequence;
  time.number.store(number + 1, std::memory_order_release);
}

std::uint64_t address_of(const void* object) {
  return reinterpret_cast<std::uint64_t>(object);
}

}  // namespace

#define DDP_PUBLIC extern "C" __attribute__((visibility("default")))

// Begins to write to new memory, and returns its descriptor, or -1. Only the first call counts, and a forked child
// writes nothing. The memory is no file, because a full disk would then end the program.
DDP_PUBLIC int ddp_call_times_open() {
  constexpr int kOutOfTheWay = 500;  // programs expect their own descriptors to be small
  if (memory.load() != nullptr) return -1;
  int file = ::memfd_create("ddp-call-times", MFD_CLOEXEC);
  if (file < 0) return -1;
  const int moved = ::fcntl(file, F_DUPFD_CLOEXEC, kOutOfTheWay);
  if (moved >= 0) ::close(file);
  if (moved >= 0) file = moved;
  void* const pages = ::ftruncate(file, sizeof(CallTimesLayout)) != 0
                          ? MAP_FAILED
                          : ::mmap(nullptr, sizeof(CallTimesLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (pages == MAP_FAILED) {
    ::close(file);
    return -1;
  }
  auto* const layout = static_cast<CallTimesLayout*>(pages);
  layout->magic = ddp::wire::kCallTimesMagic;
  layout->version = ddp::wire::kCallTimesVersion;
  memory.store(layout, std::memory_order_release);
  ::pthread_atfork(nullptr, nullptr, [] { memory.store(nullptr); });
  return file;
}

// Stands for void c10d::ProcessGroupGloo::enqueue(c10::intrusive_ptr<AsyncWork>). The pointer is passed by its address.
DDP_PUBLIC void ddp_enqueue(void* group, void* const* work) __asm__(DDP_ENQUEUE);
DDP_PUBLIC void ddp_enqueue(void* group, void* const* work) {
  using Enqueue = void(void*, void* const*);
  using Sequence = std::uint64_t(const void*);
  static std::atomic<Enqueue*> own{nullptr};
  static std::atomic<Sequence*> sequence{nullptr};
  if (own.load() == nullptr) {
    void* const caller = __builtin_return_address(0);
    sequence.store(reinterpret_cast<Sequence*>(original(kSequence, caller)));
    own.store(reinterpret_cast<Enqueue*>(original(DDP_ENQUEUE, caller)));
  }
  Sequence* const number = sequence.load();
  const std::uint64_t its_number = number == nullptr ? 0 : number(*work);
  if (its_number != 0) add(address_of(*work), address_of(group), its_number);
  own.load()(group, work);
  if (its_number != 0) add(0, address_of(group), its_number);
}

// Stands for void c10d::ProcessGroupGloo::AsyncWork::finishWorkGloo().
DDP_PUBLIC void ddp_finish(void* work) __asm__(DDP_FINISH);
DDP_PUBLIC void ddp_finish(void* work) {
  using Finish = void(void*);
  static std::atomic<Finish*> own{nullptr};
  if (own.load() == nullptr) own.store(reinterpret_cast<Finish*>(original(DDP_FINISH, __builtin_return_address(0))));
  add(address_of(work), 0, 0);
  own.load()(work);
}
