#include <ddp/compression_hooks.h>
#include <ddp/error.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/ddp/hooks/compression_math.h"
#include "runtime/ddp/hooks/parameter_state.h"

namespace ddp {

using namespace internal;

namespace {

class PowerSgdHook : public CommunicationHook {
 public:
  explicit PowerSgdHook(const PowerSgdOptions& options) : options_(options), plain_(make_mean_hook()) {}

  Communication start(const ProcessGroup& group, const GradientBucket& bucket) override {
    if (bucket.index == 0) ++step_;
    if (step_ <= options_.start_step) return plain_->start(group, bucket);

    const CompressionMath math(group, bucket, kName);
    const Parts parts = parts_of(bucket);
    State& state = state_of(group, bucket, parts);
    prepare(group, bucket, math, parts);
    const double scale = local_scale(bucket, group.size());
    for (const Part& part : parts.compressed) {
      const Views views = state.views(part);
      math.correct(part.gradient->data, scale, errors_.at(part.gradient->name), views.values);
      math.replace_columns(part.shape, drawn_.at(part.gradient->name), factors_.at(part.gradient->name));
      math.multiply(part.shape, views.values, factors_.at(part.gradient->name), views.left);
    }
    for (const Part& part : parts.whole) math.convert(part.gradient->data, state.whole_of(part), scale);
    return mean(group, bucket, {state.left, state.whole});
  }

  std::size_t finish(const ProcessGroup& group, const GradientBucket& bucket) override {
    if (step_ <= options_.start_step) return plain_->finish(group, bucket);
    const CompressionMath math(group, bucket, kName);
    const Parts parts = parts_of(bucket);
    const State& state = states_.at(bucket.index);
    for (const Part& part : parts.compressed) {
      const Views views = state.views(part);
      math.orthonormalise(part.shape, views.left);
      math.multiply_transposed(part.shape, views.values, views.left, views.right);
    }
    Communication right = mean(group, bucket, {state.right});
    for (Work& work : right.works) work.wait();
    for (const Part& part : parts.compressed) {
      const Views views = state.views(part);
      // The error is the difference of the values and of the approximation, which replaces them.
      const Buffer& error = errors_.at(part.gradient->name);
      math.copy(views.values, error);
      math.expand(part.shape, views.left, views.right, views.values);
      math.add(views.values, -1, error);
      math.convert(views.values, part.gradient->data, 1);
      math.copy(views.right, factors_.at(part.gradient->name));
    }
    for (const Part& part : parts.whole) math.convert(state.whole_of(part), part.gradient->data, 1);
    return right.bytes;
  }

 private:
  static constexpr const char* kName = "PowerSGD hook";

  // Describes a gradient of a bucket, and where its data begin in the bucket's State.
  struct Part {
    const Tensor* gradient;
    MatrixShape shape;
    std::size_t values;  // or the place in State::whole
    std::size_t left;
    std::size_t right;
  };
  struct Parts {
    std::vector<Part> compressed;
    std::vector<Part> whole;
    std::size_t values = 0;  // numbers of elements
    std::size_t left = 0;
    std::size_t right = 0;
    std::size_t uncompressed = 0;
  };
  struct Views {
    Buffer values;
    Buffer left;
    Buffer right;
  };
  // Holds the data of one bucket. The gradients' parts follow each other.
  struct State {
    Memory values;  // M, plus the error of previous steps
    Memory left;    // P of each gradient
    Memory right;   // Q of each gradient
    Memory whole;   // gradients that are not compressed

    Views views(const Part& part) const {
      return {values.buffer().slice(part.values, part.gradient->data.count),
              left.buffer().slice(part.left, part.shape.rows * part.shape.rank),
              right.buffer().slice(part.right, part.shape.columns * part.shape.rank)};
    }
    Buffer whole_of(const Part& part) const { return whole.buffer().slice(part.values, part.gradient->data.count); }
  };

  MatrixShape shape_of(const Tensor& gradient) const {
    const auto rows = static_cast<std::size_t>(gradient.shape[0]);
    const std::size_t columns = gradient.data.count / rows;
    return {rows, columns, std::min({static_cast<std::size_t>(options_.rank), rows, columns})};
  }

  bool is_compressed(const Tensor& gradient) const {
    if (gradient.shape.size() < 2 || gradient.data.count == 0) return false;
    const MatrixShape shape = shape_of(gradient);
    return static_cast<double>((shape.rows + shape.columns) * shape.rank) * options_.least_compression <=
           static_cast<double>(gradient.data.count);
  }

  Parts parts_of(const GradientBucket& bucket) const {
    Parts parts;
    for (const Tensor& gradient : bucket.gradients) {
      if (!is_compressed(gradient)) {
        parts.whole.push_back({&gradient, {}, parts.uncompressed, 0, 0});
        parts.uncompressed += gradient.data.count;
        continue;
      }
      const MatrixShape shape = shape_of(gradient);
      parts.compressed.push_back({&gradient, shape, parts.values, parts.left, parts.right});
      parts.values += gradient.data.count;
      parts.left += shape.rows * shape.rank;
      parts.right += shape.columns * shape.rank;
    }
    return parts;
  }

  State& state_of(const ProcessGroup& group, const GradientBucket& bucket, const Parts& parts) {
    State& state = states_[bucket.index];
    const auto resize = [&](Memory& memory, std::size_t count) {
      if (memory.size() != count) memory = group.allocate(count, DataType::f32, device_of(bucket));
    };
    resize(state.values, parts.values);
    resize(state.left, parts.left);
    resize(state.right, parts.right);
    resize(state.whole, parts.uncompressed);
    return state;
  }

  // Makes room for what is kept from step to step, and draws columns for new factors. Factors are 0 at first. A factor
  // of a gradient that was 0 would stay 0 forever, and that of a gradient that overflowed would not be a number. The
  // drawn columns replace such columns. They are the same on all ranks.
  void prepare(const ProcessGroup& group, const GradientBucket& bucket, const CompressionMath& math,
               const Parts& parts) {
    std::vector<ParameterState::Size> elements;
    std::vector<ParameterState::Size> sizes;
    for (const Part& part : parts.compressed) {
      elements.push_back({part.gradient->name, part.gradient->data.count});
      sizes.push_back({part.gradient->name, part.shape.columns * part.shape.rank});
    }
    errors_.place(group, bucket, math, elements);
    factors_.place(group, bucket, math, sizes);
    const std::vector<std::string> fresh = drawn_.place(group, bucket, math, sizes);
    for (const Part& part : parts.compressed) {
      if (std::ranges::find(fresh, part.gradient->name) == fresh.end()) continue;
      const std::vector<float> values = draw(part);
      group.copy(drawn_.at(part.gradient->name), values);
    }
  }

  std::vector<float> draw(const Part& part) const {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : part.gradient->name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    std::mt19937_64 random(hash ^ options_.seed);
    std::vector<float> values(part.shape.columns * part.shape.rank);
    for (std::size_t k = 0; k < part.shape.rank; ++k) {
      std::normal_distribution<float> normal;
      for (std::size_t j = 0; j < part.shape.columns; ++j) values[j * part.shape.rank + k] = normal(random);
    }
    return values;
  }

  // Begins to replace the buffers by their means over all ranks.
  Communication mean(const ProcessGroup& group, const GradientBucket& bucket, std::vector<Buffer> buffers) const {
    std::erase_if(buffers, [](const Buffer& buffer) { return buffer.count == 0; });
    GradientBucket averaged = bucket;
    averaged.ranges = buffers;
    averaged.factor = 1.0 / group.size();
    return plain_->start(group, averaged);
  }

  const PowerSgdOptions options_;
  const std::shared_ptr<CommunicationHook> plain_;
  std::int64_t step_ = 0;  // counts from 1
  ParameterState errors_;
  ParameterState factors_;               // Q of the previous step
  ParameterState drawn_;                 // random numbers in the shape of Q
  std::map<std::size_t, State> states_;  // by bucket index
};

}  // namespace

std::shared_ptr<CommunicationHook> make_power_sgd_hook(PowerSgdOptions options) {
  if (options.rank < 1 || options.start_step < 0 || !(options.least_compression > 0)) {
    throw Error(ErrorKind::invalid_argument,
                "make_power_sgd_hook: rank must be 1 or more (" + std::to_string(options.rank) +
                    "), start_step 0 or more (" + std::to_string(options.start_step) +
                    "), least_compression more than 0 (" + std::to_string(options.least_compression) + ")");
  }
  return std::make_shared<PowerSgdHook>(options);
}

}  // namespace ddp
