#include "runtime/c/c_call.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "runtime/c/boundary.h"
#include "runtime/c/handles.h"
#include "runtime/limits.h"

namespace ddp::internal {
namespace {

static_assert(static_cast<int>(DataType::f16) == DDP_TYPE_F16 && static_cast<int>(DataType::bf16) == DDP_TYPE_BF16 &&
              static_cast<int>(DataType::f32) == DDP_TYPE_F32 && static_cast<int>(DataType::f64) == DDP_TYPE_F64 &&
              static_cast<int>(DataType::i8) == DDP_TYPE_I8 && static_cast<int>(DataType::i16) == DDP_TYPE_I16 &&
              static_cast<int>(DataType::i32) == DDP_TYPE_I32 && static_cast<int>(DataType::i64) == DDP_TYPE_I64 &&
              static_cast<int>(DataType::u8) == DDP_TYPE_U8 && static_cast<int>(DataType::boolean) == DDP_TYPE_BOOL &&
              kDataTypes.size() == DDP_TYPE_BOOL + 1);
static_assert(static_cast<int>(ReduceOp::sum) == DDP_OP_SUM && static_cast<int>(ReduceOp::average) == DDP_OP_AVERAGE &&
              static_cast<int>(ReduceOp::product) == DDP_OP_PRODUCT && static_cast<int>(ReduceOp::min) == DDP_OP_MIN &&
              static_cast<int>(ReduceOp::max) == DDP_OP_MAX && static_cast<int>(ReduceOp::bit_and) == DDP_OP_BIT_AND &&
              static_cast<int>(ReduceOp::bit_or) == DDP_OP_BIT_OR &&
              static_cast<int>(ReduceOp::bit_xor) == DDP_OP_BIT_XOR &&
              static_cast<int>(ReduceOp::premultiplied_sum) == DDP_OP_PREMULTIPLIED_SUM);

// The last field of the structure's first version ends here. Fields that are added later are optional.
constexpr std::size_t kLeastCallOptions = offsetof(ddp_call_options, device) + sizeof(ddp_call_options::device);

// Returns a copy of the file name that lives as long as the process. Messages about a hang may show it at any later
// time. A program has few file names. If a program makes up names, those beyond the limit are not shown.
const char* lasting(const char* file) {
  constexpr std::size_t kMostFiles = 4096;
  static thread_local const char* latest = "";
  if (std::strcmp(latest, file) == 0) return latest;
  static std::mutex mutex;
  static std::set<std::string>& files = *std::make_unique<std::set<std::string>>().release();
  const std::lock_guard lock(mutex);
  const auto found = files.find(file);
  if (found == files.end() && files.size() >= kMostFiles) return "";
  latest = found == files.end() ? files.emplace(file).first->c_str() : found->c_str();
  return latest;
}

CallSite& call_site_of_thread() {
  static thread_local CallSite site;
  return site;
}

}  // namespace

CallSite take_call_site() {
  return std::exchange(call_site_of_thread(), {});
}

std::optional<std::chrono::milliseconds> timeout_of(const char* function, std::int64_t timeout_ms) {
  if (timeout_ms < 0) refuse(function, "timeout_ms is " + std::to_string(timeout_ms) + ", which is negative");
  if (timeout_ms == 0) return std::nullopt;
  // Later moments cannot be expressed in nanoseconds.
  constexpr std::chrono::milliseconds kLongest = limits::kNoTimeout;
  return std::min(std::chrono::milliseconds(timeout_ms), kLongest);
}

DataType type_of(const char* function, std::int32_t type) {
  require_value(function, "type", type, "ddp_type", DDP_TYPE_BOOL);
  return static_cast<DataType>(type);
}

DeviceType device_of(const char* function, std::int32_t device) {
  if (device == DDP_DEVICE_CPU) return DeviceType::cpu;
  if (device == DDP_DEVICE_CUDA) return DeviceType::cuda;
  refuse(function, "device " + std::to_string(device) + " is not a value of enum ddp_device, which has 0 and 1");
}

CCall::CCall(const char* function, const ddp_group* group, const ddp_call_options* options, ddp_work** work)
    : function_(function), site_(take_call_site()), work_(work) {
  if (work_ != nullptr) *work_ = nullptr;
  group_ = handles().groups.find(function, group);
  if (options == nullptr) return;
  ddp_call_options given = DDP_CALL_OPTIONS_INIT;
  copy_structure(function, "ddp_call_options", options, &given, kLeastCallOptions, sizeof given);
  options_.timeout = timeout_of(function, given.timeout_ms);
  if (given.name != nullptr) options_.name = given.name;
  if (given.has_stream != 0) options_.stream = Stream::from_handle(given.stream);
  device_ = device_of(function, given.device);
  factor_ = given.factor;
}

std::size_t CCall::checked_count(std::int64_t count, DataType type, std::int64_t ranks) const {
  if (count < 0) refuse(function_, "the count is " + std::to_string(count) + ", which is negative");
  const auto most = std::numeric_limits<std::int64_t>::max() / ranks / static_cast<std::int64_t>(size_of(type));
  if (count > most) {
    refuse(function_, "the count is " + std::to_string(count) + ", which is more than fits into memory");
  }
  return static_cast<std::size_t>(count * ranks);
}

Buffer CCall::output(void* data, std::int64_t count, std::int32_t type) const {
  const DataType known = type_of(function_, type);
  return {data, checked_count(count, known, 1), known, device_};
}

ConstBuffer CCall::input(const void* data, std::int64_t count, std::int32_t type) const {
  const DataType known = type_of(function_, type);
  return {data, checked_count(count, known, 1), known, device_};
}

Buffer CCall::whole_output(void* data, std::int64_t count, std::int32_t type) const {
  const DataType known = type_of(function_, type);
  return {data, checked_count(count, known, group_->size()), known, device_};
}

ConstBuffer CCall::whole_input(const void* data, std::int64_t count, std::int32_t type) const {
  const DataType known = type_of(function_, type);
  return {data, checked_count(count, known, group_->size()), known, device_};
}

std::vector<Buffer> CCall::outputs(const ddp_part* parts, std::int64_t count, std::int32_t type) const {
  if (count < 0 || (parts == nullptr && count > 0)) {
    refuse(function_, "there are " + std::to_string(count) + " parts, but the list of them is " +
                          (parts == nullptr ? "a null pointer" : "too short"));
  }
  std::vector<Buffer> buffers;
  for (const ddp_part& part : std::span(parts, static_cast<std::size_t>(count))) {
    buffers.push_back(output(part.data, part.count, type));
  }
  return buffers;
}

std::vector<ConstBuffer> CCall::inputs(const ddp_part* parts, std::int64_t count, std::int32_t type) const {
  const std::vector<Buffer> buffers = outputs(parts, count, type);
  return {buffers.begin(), buffers.end()};
}

ReduceOp CCall::reduction(std::int32_t op) const {
  require_value(function_, "op", op, "ddp_op", DDP_OP_PREMULTIPLIED_SUM);
  if (op == DDP_OP_PREMULTIPLIED_SUM) {
    if (!factor_) refuse(function_, "DDP_OP_PREMULTIPLIED_SUM needs ddp_call_options with a factor");
    return ReduceOp::premultiplied(*factor_);
  }
  return static_cast<ReduceOp::Kind>(op);
}

void CCall::finish(Work work) const {
  if (work_ == nullptr) return work.wait();
  *work_ = handles().works.add(std::make_shared<Work>(std::move(work)));
}

}  // namespace ddp::internal

void ddp_called_from(const char* file, int line) {
  using namespace ddp::internal;
  // The function never throws. If there is no memory, the place is unknown.
  try {
    call_site_of_thread() = file == nullptr ? ddp::CallSite() : ddp::CallSite{lasting(file), line};
  } catch (...) {
    call_site_of_thread() = {};
  }
}
