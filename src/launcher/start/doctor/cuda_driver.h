// CudaDriver is a table of the functions of the CUDA driver that the proof of peer access calls. The library is opened
// at run time. Its calls may hang, so they are made in a process of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ddp::launcher::doctor {

using CudaStatus = int;                  // CUresult as a number
using CudaAddress = unsigned long long;  // CUdeviceptr
inline constexpr CudaStatus kNotReady = 600;

struct CudaDriver {
  // Opens the driver's library. is_complete() is false if there is none, or if a function is missing.
  explicit CudaDriver(const std::string& file);
  bool is_complete() const { return missing_ == nullptr; }

  CudaStatus (*init)(unsigned flags) = nullptr;
  CudaStatus (*device_count)(int* count) = nullptr;
  CudaStatus (*get_device)(int* device, int number) = nullptr;
  CudaStatus (*retain_context)(void** context, int device) = nullptr;
  CudaStatus (*use_context)(void* context) = nullptr;
  CudaStatus (*can_access_peer)(int* can, int device, int peer) = nullptr;
  CudaStatus (*enable_peer_access)(void* peer_context, unsigned flags) = nullptr;  // for the current context
  CudaStatus (*create_stream)(void** stream, unsigned flags, int priority) = nullptr;
  CudaStatus (*query_stream)(void* stream) = nullptr;  // kNotReady while work is in progress
  CudaStatus (*allocate)(CudaAddress* memory, std::size_t bytes) = nullptr;
  CudaStatus (*allocate_host)(void** memory, std::size_t bytes, unsigned flags) = nullptr;
  CudaStatus (*copy)(CudaAddress to, CudaAddress from, std::size_t bytes, void* stream) = nullptr;
  CudaStatus (*copy_peer)(CudaAddress to, void* to_context, CudaAddress from, void* from_context, std::size_t bytes,
                          void* stream) = nullptr;
  CudaStatus (*fill)(CudaAddress memory, unsigned char value, std::size_t bytes, void* stream) = nullptr;
  CudaStatus (*load_module)(void** module, const void* text) = nullptr;
  CudaStatus (*find_function)(void** function, void* module, const char* name) = nullptr;
  CudaStatus (*launch)(void* function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                       unsigned threads_y, unsigned threads_z, unsigned shared_bytes, void* stream, void** parameters,
                       void** extra) = nullptr;

 private:
  const char* missing_ = nullptr;
};

// The kernels, as PTX text, which the driver compiles for its GPU.
//   ddp_write(place, words, seed): word i becomes word_of(seed, i).
//   ddp_count(place, words, seed, result): adds up in result[0] how many words differ, and stores one of their
//     numbers in result[1].
//   ddp_send(data, flag, answer, words, rounds): in each round, writes the words with the round as the seed, then the
//     round's number to the flag, and waits until the answer is the same. One thread.
//   ddp_receive(data, flag, answer, words, rounds, result): waits for each flag, counts the words that differ in
//     result[0], and answers. One thread.
// `place` may be memory of a peer. `data` and `flag` are of the receiver, and `answer` is of the sender.
extern const char* const kPeerKernels;

}  // namespace ddp::launcher::doctor
