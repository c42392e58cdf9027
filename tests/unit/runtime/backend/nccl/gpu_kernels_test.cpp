// Compares the kernels with the functions for host memory. The kernels run in software, or on this computer's GPU
// (DDP_TEST_GPU=1).
#include "runtime/backend/nccl/gpu_kernels.h"

#include <ddp/error.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "runtime/ddp/element_math.h"
#include "runtime/ddp/hooks/compression_math.h"
#include "runtime/ddp/update_rules.h"
#include "runtime/reduction/ordered.h"
#include "runtime/reduction/reduction.h"
#include "support/catch.h"
#include "support/gpu_arrays.h"
#include "support/random_seed.h"
#include "support/stderr_to.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::test;

namespace {

constexpr std::array<std::size_t, 5> kCounts = {0, 1, 31, 1025, 100'003};

// Computes to[i] = from[i] * factor in the type of the arithmetic of `to`.
void convert_on_host(const ConstBuffer& from, const Buffer& to, double factor) {
  if (to.type == DataType::f64) {
    std::vector<float> narrow(from.count);
    to_single(from, narrow.data());
    for (std::size_t i = 0; i < to.count; ++i) {
      const double value = from.type == DataType::f64 ? static_cast<const double*>(from.data)[i] : narrow[i];
      to.as<double>()[i] = value * factor;
    }
    return;
  }
  std::vector<float> values(from.count);
  to_single(from, values.data());
  for (float& value : values) value *= static_cast<float>(factor);
  from_single(values.data(), to);
}

bool is_finite_at(const ConstBuffer& buffer, std::size_t i) {
  return is_finite(buffer.slice(i, 1));
}

// Computes to[i] += from[i] * factor for f32.
void add_on_host(const ConstBuffer& from, double factor, bool only_finite, const Buffer& to) {
  std::vector<float> added(from.count);
  convert_on_host(from, added, factor);
  for (std::size_t i = 0; i < to.count; ++i) {
    to.as<float>()[i] += only_finite && !is_finite_at(from, i) ? 0 : added[i];
  }
}

// Returns the types of the parameters of each kernel in the text.
std::map<std::string, std::vector<std::string>> declared_parameters() {
  std::map<std::string, std::vector<std::string>> result;
  std::istringstream text(kKernelsText);
  std::string line;
  std::string kernel;
  while (std::getline(text, line)) {
    std::istringstream words(line);
    std::string first, second, third;
    words >> first >> second >> third;
    if (second == ".entry") {
      kernel = third.substr(0, third.find('('));
      result[kernel];
    }
    if (first == ".param") result[kernel].push_back(second.substr(1));
  }
  return result;
}

// Records the types of the parameters that kernels would be started with.
struct RecordedKernels : GpuKernels {
  explicit RecordedKernels(const GpuUnderTest& gpu) : GpuKernels(gpu.libraries, 0, none, gpu.heap) {}

  void launch_kernel(const std::string& kernel, std::uint64_t, std::span<const KernelParameter> parameters,
                     Stream) override {
    std::vector<std::string> types;
    for (const KernelParameter& parameter : parameters) types.emplace_back(parameter.type);
    passed[kernel].insert(types);
  }

  std::map<std::string, std::set<std::vector<std::string>>> passed;
  static inline const Functions none;
};

}  // namespace

TEST_CASE("kernels scale, convert and add bit-identically to the host") {
  const unsigned seed = random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  GpuUnderTest gpu;
  for (const std::size_t count : kCounts) {
    for (const DataType type : kFloatingPointTypes) {
      for (const std::size_t offset : {0, 1}) {
        if (count > 2000 && offset > 0) continue;
        CAPTURE(count, to_string(type), offset);
        GpuArray values(gpu, type, count, offset);
        values.fill(random);
        scale(values.host(), 1.0 / 3);
        gpu.math->scale(values.gpu(), 1.0 / 3, gpu.stream);
        REQUIRE(values.first_difference() == -1);
        for (const DataType to_type : kFloatingPointTypes) {
          if (count > 2000 && to_type != DataType::bf16) continue;
          CAPTURE(to_string(to_type));
          GpuArray to(gpu, to_type, count, offset);
          to.fill(random);
          for (const double factor : {1.0, -0.3}) {
            convert_on_host(values.host(), to.host(), factor);
            gpu.math->convert(values.gpu(), to.gpu(), factor, gpu.stream);
            REQUIRE(to.first_difference() == -1);
          }
          const bool both_are_single = type == DataType::f32 && to_type == DataType::f32;
          for (const bool only_finite : both_are_single ? std::vector{false, true} : std::vector<bool>()) {
            to.fill(random, false);
            add_on_host(values.host(), 0.7, only_finite, to.host());
            gpu.math->add(values.gpu(), 0.7, only_finite, to.gpu(), gpu.stream);
            REQUIRE(to.first_difference() == -1);
          }
        }
      }
    }
  }
}

TEST_CASE("kernels map values to ordered integers and back bit-identically to the host") {
  const unsigned seed = random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  GpuUnderTest gpu;
  for (const std::size_t count : kCounts) {
    for (const DataType type : kFloatingPointTypes) {
      for (const bool nan_is_largest : {false, true}) {
        CAPTURE(count, to_string(type), nan_is_largest);
        GpuArray values(gpu, type, count, 1);
        GpuArray integers(gpu, ordered_type(type), count, 1);
        values.fill(random);
        to_ordered(values.host(), nan_is_largest, integers.host());
        gpu.math->to_ordered(values.gpu(), nan_is_largest, integers.gpu(), gpu.stream);
        REQUIRE(integers.first_difference() == -1);
        from_ordered(integers.host(), values.host());
        gpu.math->from_ordered(integers.gpu(), values.gpu(), gpu.stream);
        REQUIRE(values.first_difference() == -1);
      }
    }
  }
}

TEST_CASE("a factor of 1 leaves values unchanged and starts no kernel") {
  const auto libraries = gpu_libraries();
  int launches = 0;
  replace(libraries->cuda.launch_kernel, [&launches, real = libraries->cuda.launch_kernel](auto&&... arguments) {
    ++launches;
    return real(arguments...);
  });
  GpuUnderTest gpu(libraries);
  GpuArray values(gpu, DataType::f32, 10);
  gpu.math->scale(values.gpu(), 1, gpu.stream);
  gpu.math->scale(values.gpu().slice(0, 0), 2, gpu.stream);
  CHECK(launches == 0);
  gpu.math->scale(values.gpu(), 2, gpu.stream);
  CHECK(launches == 1);
}

TEST_CASE("kernels compute the sum of squares of several buffers reproducibly") {
  const unsigned seed = random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  GpuUnderTest gpu;
  CHECK(gpu.math->sum_of_squares({}, gpu.stream) == 0);
  for (const DataType type : kFloatingPointTypes) {
    for (const std::size_t count : kCounts) {
      CAPTURE(to_string(type), count);
      GpuArray first(gpu, type, count, 1);
      GpuArray second(gpu, DataType::f32, 77);
      first.fill(random, false);
      second.fill(random, false);
      const double expected = sum_of_squares(first.host()) + sum_of_squares(second.host());
      const std::array<ConstBuffer, 2> buffers = {first.gpu(), second.gpu()};
      const double sum = gpu.math->sum_of_squares(buffers, gpu.stream);
      CHECK(std::abs(sum - expected) <= 1e-12 * expected);
      CHECK(gpu.math->sum_of_squares(buffers, gpu.stream) == sum);
    }
  }
}

TEST_CASE("kernels find a single element that is not finite anywhere") {
  std::mt19937_64 random(1);
  GpuUnderTest gpu;
  CHECK(gpu.math->are_finite({}, gpu.stream));
  for (const DataType type : kFloatingPointTypes) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{31}, std::size_t{4'099}}) {
      GpuArray values(gpu, type, count);
      GpuArray other(gpu, DataType::f16, 3);
      other.fill(random, false);
      const std::array<ConstBuffer, 2> buffers = {values.gpu(), other.gpu()};
      for (const std::size_t place : {std::size_t{0}, count / 2, count - 1}) {
        CAPTURE(to_string(type), count, place);
        values.fill(random, false);
        CHECK(gpu.math->are_finite(buffers, gpu.stream));
        GpuArray bad(gpu, DataType::f64, 1);
        bad.values<double>()[0] = place % 2 == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
        bad.upload();
        gpu.math->convert(bad.gpu(), values.gpu().slice(place, 1), 1, gpu.stream);
        CHECK_FALSE(gpu.math->are_finite(buffers, gpu.stream));
      }
    }
  }
}

TEST_CASE("kernels update elements bit-identically to the host") {
  const unsigned seed = random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  GpuUnderTest gpu;
  const std::vector<Optimizer::Options> all_options = {
      SgdOptions{.learning_rate = 0.1},
      SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01},
      SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
      AdamOptions{.weight_decay = 0.1},
      AdamOptions{.weight_decay = 0.1, .decoupled = false},
  };
  for (const DataType type : kFloatingPointTypes) {
    const DataType state = type == DataType::f64 ? DataType::f64 : DataType::f32;
    for (const std::size_t count : kCounts) {
      for (std::size_t kind = 0; kind < all_options.size(); ++kind) {
        if (count > 2000 && kind < 3) continue;
        const std::size_t offset = kind % 2;
        CAPTURE(to_string(type), count, kind, offset);
        GpuArray values(gpu, type, count, offset);
        GpuArray gradient(gpu, type, count);
        GpuArray first(gpu, state, count, offset);
        GpuArray second(gpu, state, count);
        GpuArray master(gpu, state, count, offset);
        values.fill(random);
        master.fill(random);
        for (std::int64_t step = 1; step <= 3; ++step) {
          gradient.fill(random, step == 2);
          const double factor = step == 1 ? 1 : 0.3;
          update(all_options[kind], step,
                 {values.host(), gradient.host(), first.host(), second.host(), master.host(), factor});
          gpu.math->update(all_options[kind], step,
                           {values.gpu(), gradient.gpu(), first.gpu(), second.gpu(), master.gpu(), factor}, gpu.stream);
          REQUIRE(values.first_difference() == -1);
          REQUIRE(first.first_difference() == -1);
          REQUIRE(second.first_difference() == -1);
          REQUIRE(master.first_difference() == -1);
        }
      }
    }
  }
}

TEST_CASE("every kernel is started with its declared parameters") {
  GpuUnderTest gpu;
  auto recorded = std::make_unique<RecordedKernels>(gpu);
  auto& passed = recorded->passed;
  gpu.math = std::move(recorded);
  for (const DataType type : kFloatingPointTypes) {
    const GpuArray a(gpu, type, 8);
    const std::array<ConstBuffer, 1> buffers = {a.gpu()};
    gpu.math->sum_of_squares(buffers, gpu.stream);
    gpu.math->are_finite(buffers, gpu.stream);
    for (const DataType to_type : kFloatingPointTypes) {
      const GpuArray b(gpu, to_type, 8);
      gpu.math->convert(a.gpu(), b.gpu(), 1, gpu.stream);
    }
    const GpuArray integers(gpu, ordered_type(type), 8);
    gpu.math->to_ordered(a.gpu(), true, integers.gpu(), gpu.stream);
    gpu.math->from_ordered(integers.gpu(), a.gpu(), gpu.stream);
    const UpdatedElements elements{a.gpu(), a.gpu(), a.gpu(), a.gpu(), a.gpu()};
    gpu.math->update(SgdOptions{}, 1, elements, gpu.stream);
    gpu.math->update(SgdOptions{.momentum = 0.9}, 1, elements, gpu.stream);
    gpu.math->update(AdamOptions{}, 1, elements, gpu.stream);
  }
  const GpuArray f(gpu, DataType::f32, 8);
  const GpuArray indices(gpu, DataType::i32, 4);
  const MatrixShape shape{2, 2, 1};
  const CompressionMath math(gpu.math.get(), gpu.stream);
  math.take_largest(f.gpu(), indices.gpu(), f.gpu().slice(0, 4));
  math.scatter_add(indices.gpu(), f.gpu().slice(0, 4), 1, f.gpu());
  gpu.math->add(f.gpu(), 1, true, f.gpu(), gpu.stream);
  math.multiply(shape, f.gpu(), f.gpu(), f.gpu());
  math.multiply_transposed(shape, f.gpu(), f.gpu(), f.gpu());
  math.expand(shape, f.gpu(), f.gpu(), f.gpu());
  math.orthonormalise(shape, f.gpu());
  math.replace_columns(shape, f.gpu(), f.gpu());

  const auto declared = declared_parameters();
  CHECK(declared.size() > 50);
  for (const auto& [name, types] : declared) {
    CAPTURE(name);
    CHECK(passed[name] == std::set{types});
  }
  CHECK(passed.size() == declared.size());
}

TEST_CASE("all kernels are looked up at load time, because the driver synchronises with the device then") {
  const auto libraries = gpu_libraries();
  std::set<std::string> found;
  replace(libraries->cuda.find_function,
          [&, real = libraries->cuda.find_function](auto& function, auto module, const char* name) {
            found.insert(name);
            return real(function, module, name);
          });
  const GpuUnderTest gpu(libraries);
  for (const auto& [name, types] : declared_parameters()) CHECK(found.contains(name));
}

TEST_CASE("memory for intermediate results is allocated once per stream") {
  const auto libraries = gpu_libraries();
  int allocations = 0;
  replace(libraries->cuda.allocate, [&, real = libraries->cuda.allocate](void*& memory, std::size_t bytes) {
    ++allocations;
    return real(memory, bytes);
  });
  replace(libraries->cuda.allocate_pinned, [&, real = libraries->cuda.allocate_pinned](auto&&... arguments) {
    ++allocations;
    return real(arguments...);
  });
  GpuUnderTest gpu(libraries);
  GpuArray values(gpu, DataType::f32, 5'000);
  const std::array<ConstBuffer, 1> buffers = {values.gpu()};
  gpu.math->sum_of_squares(buffers, gpu.stream);
  const int before = allocations;
  for (int i = 0; i < 3; ++i) {
    gpu.math->sum_of_squares(buffers, gpu.stream);
    gpu.math->are_finite(buffers, gpu.stream);
  }
  CHECK(allocations == before);
}

TEST_CASE("a driver that cannot load the kernels gives one warning, and everything else works") {
  const auto libraries = gpu_libraries();
  replace(libraries->cuda.load_module, [](CudaModuleHandle&, const char*) { return 218; });
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/errors";
  {
    const StderrTo to(file);
    CHECK(GpuKernels::load(libraries, 0, nullptr) == nullptr);
    CHECK(GpuKernels::load(libraries, 0, nullptr) == nullptr);
  }
  std::ifstream stream(file);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  CHECK_THAT(text, Catch::Contains("ddp: warning: the NVIDIA driver cannot load the runtime's kernels"));
  CHECK(text.find("warning") == text.rfind("warning"));
  if (!on_real_gpu()) CHECK_THAT(text, Catch::Contains("CUDA_ERROR_INVALID_PTX"));
}
