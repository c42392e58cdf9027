#include "launcher/start/doctor/cuda_driver.h"

#include <dlfcn.h>

#include <type_traits>

namespace ddp::launcher::doctor {

CudaDriver::CudaDriver(const std::string& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto find = [&](auto& function, const char* name) {
    if (library != nullptr)
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) missing_ = name;
  };
  find(init, "cuInit");
  find(device_count, "cuDeviceGetCount");
  find(get_device, "cuDeviceGet");
  find(retain_context, "cuDevicePrimaryCtxRetain");
  find(use_context, "cuCtxSetCurrent");
  find(can_access_peer, "cuDeviceCanAccessPeer");
  find(enable_peer_access, "cuCtxEnablePeerAccess");
  find(create_stream, "cuStreamCreateWithPriority");
  find(query_stream, "cuStreamQuery");
  find(allocate, "cuMemAlloc_v2");
  find(allocate_host, "cuMemHostAlloc");
  find(copy, "cuMemcpyAsync");
  find(copy_peer, "cuMemcpyPeerAsync");
  find(fill, "cuMemsetD8Async");
  find(load_module, "cuModuleLoadData");
  find(find_function, "cuModuleGetFunction");
  find(launch, "cuLaunchKernel");
}

// word_of(seed, i) is (seed << 32 | i + 1) * 0x9e3779b97f4a7c15 (the golden ratio, as in SplitMix64): no two are equal,
// and none is 0.
const char* const kPeerKernels = R"(.version 6.0
.target sm_60
.address_size 64
.visible .entry ddp_write(
 .param .u64 ddp_write_param_0,
 .param .u64 ddp_write_param_1,
 .param .u64 ddp_write_param_2
)
{
 .reg .pred %p<3>;
 .reg .b32 %r<4>;
 .reg .b64 %rd<20>;
 ld.param.u64 %rd1, [ddp_write_param_0];
 ld.param.u64 %rd2, [ddp_write_param_1];
 ld.param.u64 %rd3, [ddp_write_param_2];
 cvta.to.global.u64 %rd4, %rd1;
 mov.u32 %r1, %ctaid.x;
 mul.wide.u32 %rd5, %r1, 256;
 mov.u32 %r2, %tid.x;
 cvt.u64.u32 %rd6, %r2;
 add.s64 %rd7, %rd5, %rd6;
 mov.u32 %r3, %nctaid.x;
 mul.wide.u32 %rd8, %r3, 256;
 shl.b64 %rd9, %rd3, 32;
 mov.u64 %rd10, -7046029254386353131;
 setp.ge.u64 %p1, %rd7, %rd2;
 @%p1 bra LBB0_2;
LBB0_1:
 add.s64 %rd11, %rd7, 1;
 or.b64 %rd12, %rd9, %rd11;
 mul.lo.s64 %rd13, %rd12, %rd10;
 shl.b64 %rd14, %rd7, 3;
 add.s64 %rd15, %rd4, %rd14;
 st.global.u64 [%rd15], %rd13;
 add.s64 %rd7, %rd7, %rd8;
 setp.lt.u64 %p2, %rd7, %rd2;
 @%p2 bra LBB0_1;
LBB0_2:
 membar.sys;
 ret;
}
.visible .entry ddp_count(
 .param .u64 ddp_count_param_0,
 .param .u64 ddp_count_param_1,
 .param .u64 ddp_count_param_2,
 .param .u64 ddp_count_param_3
)
{
 .reg .pred %p<4>;
 .reg .b32 %r<4>;
 .reg .b64 %rd<24>;
 ld.param.u64 %rd1, [ddp_count_param_0];
 ld.param.u64 %rd2, [ddp_count_param_1];
 ld.param.u64 %rd3, [ddp_count_param_2];
 ld.param.u64 %rd16, [ddp_count_param_3];
 cvta.to.global.u64 %rd4, %rd1;
 cvta.to.global.u64 %rd17, %rd16;
 mov.u32 %r1, %ctaid.x;
 mul.wide.u32 %rd5, %r1, 256;
 mov.u32 %r2, %tid.x;
 cvt.u64.u32 %rd6, %r2;
 add.s64 %rd7, %rd5, %rd6;
 mov.u32 %r3, %nctaid.x;
 mul.wide.u32 %rd8, %r3, 256;
 shl.b64 %rd9, %rd3, 32;
 mov.u64 %rd10, -7046029254386353131;
 setp.ge.u64 %p1, %rd7, %rd2;
 @%p1 bra LBB1_3;
LBB1_1:
 add.s64 %rd11, %rd7, 1;
 or.b64 %rd12, %rd9, %rd11;
 mul.lo.s64 %rd13, %rd12, %rd10;
 shl.b64 %rd14, %rd7, 3;
 add.s64 %rd15, %rd4, %rd14;
 ld.volatile.global.u64 %rd18, [%rd15];
 setp.eq.s64 %p3, %rd18, %rd13;
 @%p3 bra LBB1_2;
 mov.u64 %rd19, 1;
 atom.global.add.u64 %rd20, [%rd17], %rd19;
 st.global.u64 [%rd17+8], %rd7;
LBB1_2:
 add.s64 %rd7, %rd7, %rd8;
 setp.lt.u64 %p2, %rd7, %rd2;
 @%p2 bra LBB1_1;
LBB1_3:
 ret;
}
.visible .entry ddp_send(
 .param .u64 ddp_send_param_0,
 .param .u64 ddp_send_param_1,
 .param .u64 ddp_send_param_2,
 .param .u64 ddp_send_param_3,
 .param .u64 ddp_send_param_4
)
{
 .reg .pred %p<4>;
 .reg .b64 %rd<24>;
 ld.param.u64 %rd16, [ddp_send_param_0];
 ld.param.u64 %rd17, [ddp_send_param_1];
 ld.param.u64 %rd18, [ddp_send_param_2];
 ld.param.u64 %rd2, [ddp_send_param_3];
 ld.param.u64 %rd19, [ddp_send_param_4];
 cvta.to.global.u64 %rd4, %rd16;
 cvta.to.global.u64 %rd5, %rd17;
 cvta.to.global.u64 %rd6, %rd18;
 mov.u64 %rd10, -7046029254386353131;
 mov.u64 %rd3, 1;
LBB2_1:
 shl.b64 %rd9, %rd3, 32;
 mov.u64 %rd7, 0;
LBB2_2:
 add.s64 %rd11, %rd7, 1;
 or.b64 %rd12, %rd9, %rd11;
 mul.lo.s64 %rd13, %rd12, %rd10;
 shl.b64 %rd14, %rd7, 3;
 add.s64 %rd15, %rd4, %rd14;
 st.volatile.global.u64 [%rd15], %rd13;
 add.s64 %rd7, %rd7, 1;
 setp.lt.u64 %p1, %rd7, %rd2;
 @%p1 bra LBB2_2;
 membar.sys;
 st.volatile.global.u64 [%rd5], %rd3;
 membar.sys;
LBB2_3:
 ld.volatile.global.u64 %rd20, [%rd6];
 setp.lt.u64 %p2, %rd20, %rd3;
 @%p2 bra LBB2_3;
 add.s64 %rd3, %rd3, 1;
 setp.le.u64 %p3, %rd3, %rd19;
 @%p3 bra LBB2_1;
 ret;
}
.visible .entry ddp_receive(
 .param .u64 ddp_receive_param_0,
 .param .u64 ddp_receive_param_1,
 .param .u64 ddp_receive_param_2,
 .param .u64 ddp_receive_param_3,
 .param .u64 ddp_receive_param_4,
 .param .u64 ddp_receive_param_5
)
{
 .reg .pred %p<5>;
 .reg .b64 %rd<28>;
 ld.param.u64 %rd16, [ddp_receive_param_0];
 ld.param.u64 %rd17, [ddp_receive_param_1];
 ld.param.u64 %rd18, [ddp_receive_param_2];
 ld.param.u64 %rd2, [ddp_receive_param_3];
 ld.param.u64 %rd19, [ddp_receive_param_4];
 ld.param.u64 %rd21, [ddp_receive_param_5];
 cvta.to.global.u64 %rd4, %rd16;
 cvta.to.global.u64 %rd5, %rd17;
 cvta.to.global.u64 %rd6, %rd18;
 cvta.to.global.u64 %rd22, %rd21;
 mov.u64 %rd10, -7046029254386353131;
 mov.u64 %rd3, 1;
 mov.u64 %rd23, 0;
LBB3_1:
 ld.volatile.global.u64 %rd20, [%rd5];
 setp.lt.u64 %p2, %rd20, %rd3;
 @%p2 bra LBB3_1;
 membar.sys;
 shl.b64 %rd9, %rd3, 32;
 mov.u64 %rd7, 0;
LBB3_2:
 add.s64 %rd11, %rd7, 1;
 or.b64 %rd12, %rd9, %rd11;
 mul.lo.s64 %rd13, %rd12, %rd10;
 shl.b64 %rd14, %rd7, 3;
 add.s64 %rd15, %rd4, %rd14;
 ld.volatile.global.u64 %rd24, [%rd15];
 setp.eq.s64 %p4, %rd24, %rd13;
 @%p4 bra LBB3_3;
 add.s64 %rd23, %rd23, 1;
LBB3_3:
 add.s64 %rd7, %rd7, 1;
 setp.lt.u64 %p1, %rd7, %rd2;
 @%p1 bra LBB3_2;
 membar.sys;
 st.volatile.global.u64 [%rd6], %rd3;
 membar.sys;
 add.s64 %rd3, %rd3, 1;
 setp.le.u64 %p3, %rd3, %rd19;
 @%p3 bra LBB3_1;
 st.global.u64 [%rd22], %rd23;
 ret;
}
)";

}  // namespace ddp::launcher::doctor
