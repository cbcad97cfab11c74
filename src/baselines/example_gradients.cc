#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "baselines/example_gradients.cc"
// The same three paths as in training.
#include "numeric/simd_targets.h"

#include <hwy/foreach_target.h>  // IWYU pragma: keep: includes this file once per instruction set

#include <hwy/aligned_allocator.h>
#include <hwy/highway.h>

#include "baselines/example_gradients.h"
#include "train/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {
namespace {

// An example is a row r of the strip and a lane: at [unit][r][lane] of every buffer.
constexpr std::int64_t kBlock = kStrip * L;

// Zeros, aligned for vectors.
class Vectors {
 public:
  explicit Vectors(std::int64_t count)
      : size_(static_cast<std::size_t>(count * L)), memory_(hwy::AllocateAligned<float>(size_)) {
    Clear();
  }
  void Clear() { std::fill_n(memory_.get(), size_, 0.0f); }
  float* get() const { return memory_.get(); }

 private:
  std::size_t size_;
  hwy::AlignedFreeUniquePtr<float[]> memory_;
};

struct LayerMemory {
  Vectors units;  // those of the last layer become the derivative by them
  Vectors delta;  // derivative by the sums of a hidden layer
  ActiveList active;
  std::vector<std::int32_t> all_taps, all_filters;
};

std::vector<std::int32_t> UpTo(std::int64_t count) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class BlockGradients final : public ExampleGradients {
 public:
  BlockGradients(const Architecture& architecture, const Table& table)
      : table_(table),
        weights_(architecture.parameters()),
        gradients_(architecture.parameters()),
        inputs_(architecture.inputs() * kStrip),
        active_inputs_{UpTo(architecture.inputs())},
        logits_(static_cast<std::size_t>(architecture.classes())),
        logit_gradient_(logits_.size()) {
    for (const Layer& shape : architecture.layers()) {
      LayerState layer{shape, {}};
      for (std::int64_t k = 0; k < shape.taps; ++k) {
        layer.offsets.push_back(static_cast<std::int32_t>(shape.TapOffset(k)));
      }
      layers_.push_back(std::move(layer));
      memory_.push_back({Vectors(shape.outputs * kStrip), Vectors(shape.outputs * kStrip),
                         ActiveList{UpTo(shape.outputs)}, UpTo(shape.taps), UpTo(shape.filters)});
    }
  }

  void Sum(std::span<const float> weights, std::span<const std::int32_t> rows, const Loss& loss,
           double clip, std::span<float> sum) override {
    const D d;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      StoreAt(hn::Set(d, weights[i]), weights_.get(), static_cast<std::int64_t>(i));
    }
    gradients_.Clear();
    for (std::size_t at = 0; at < rows.size(); at += kBlock) {
      const auto block = rows.subspan(at, std::min<std::size_t>(rows.size() - at, kBlock));
      Read(block);
      for (std::size_t l = 0; l < layers_.size(); ++l) ForwardLayer(l);
      OutputGradient(block, loss);
      for (std::size_t l = layers_.size(); l-- > 1;) BackwardLayer(l);
      if (clip != kNoClip) Clip(static_cast<float>(clip));
      for (std::size_t l = 0; l < layers_.size(); ++l) AddWeightGradient(l);
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const V lanes = LoadAt(gradients_.get(), static_cast<std::int64_t>(i));
      sum[i] = hn::GetLane(hn::SumOfLanes(d, lanes));
    }
  }

 private:
  // Fills up the last rows of the block with zeros; their derivatives are 0.
  void Read(std::span<const std::int32_t> rows) {
    const auto count = static_cast<std::int64_t>(rows.size());
    rows_ = ((count + L - 1) / L + kInner - 1) / kInner * kInner;
    float* const inputs = inputs_.get();
    active_inputs_.size = 0;
    for (std::int64_t k = 0; k < table_.features; ++k) {
      float* const values = inputs + k * kBlock;
      const float* const column = table_.x.data() + k;
      bool active = false;
      for (std::int64_t e = 0; e < count; ++e) {
        values[e] = column[rows[e] * table_.features];
        active |= values[e] != 0;
      }
      std::fill(values + count, values + kBlock, 0.0f);
      active_inputs_.Offer(k, active);
    }
  }

  void ForwardLayer(std::size_t l) {
    // Only the last layer, which is dense, has no ReLU.
    if (!layers_[l].shape.relu) return ForwardLayerAs<true, false>(l);
    IsDense(l) ? ForwardLayerAs<true, true>(l) : ForwardLayerAs<false, true>(l);
  }
  template <bool kDense, bool kRelu>
  void ForwardLayerAs(std::size_t l) {
    Forward<false, kDense, kRelu>{layers_[l],       weights_.get(),         InputOf(l),
                                  TapsOf(l),        memory_[l].units.get(), rows_,
                                  memory_[l].active}
        .Run();
  }

  void OutputGradient(std::span<const std::int32_t> rows, const Loss& loss) {
    float* const units = memory_.back().units.get();
    for (std::size_t e = 0; e < rows.size(); ++e) {
      for (std::size_t c = 0; c < logits_.size(); ++c) logits_[c] = units[c * kBlock + e];
      loss.Gradient(rows[e], logits_, logit_gradient_);
      for (std::size_t c = 0; c < logits_.size(); ++c) {
        units[c * kBlock + e] = static_cast<float>(logit_gradient_[c]);
      }
    }
    for (std::size_t c = 0; c < logits_.size(); ++c) {
      std::fill(units + c * kBlock + rows.size(), units + (c + 1) * kBlock, 0.0f);
    }
  }

  // The derivative by the sums of layer l - 1, from that of layer l.
  void BackwardLayer(std::size_t l) {
    IsDense(l) ? BackwardLayerAs<true>(l) : BackwardLayerAs<false>(l);
  }
  template <bool kDense>
  void BackwardLayerAs(std::size_t l) {
    // A convolution below reads the derivatives of all its units, so they must all be written.
    const auto written =
        IsDense(l - 1) ? TapsOf(l) : std::span<const std::int32_t>(memory_[l].all_taps);
    InputGradient<kDense>{layers_[l],
                          weights_.get(),
                          DeltaOf(l),
                          written,
                          FiltersOf(l),
                          InputOf(l),
                          memory_[l - 1].delta.get(),
                          rows_}
        .Run();
  }

  void AddWeightGradient(std::size_t l) {
    IsDense(l) ? AddWeightGradientAs<true>(l) : AddWeightGradientAs<false>(l);
  }
  template <bool kDense>
  void AddWeightGradientAs(std::size_t l) {
    WeightGradient<false, kDense>{layers_[l],   InputOf(l),       DeltaOf(l), TapsOf(l),
                                  FiltersOf(l), gradients_.get(), rows_}
        .Run();
  }

  void Clip(float clip) {
    // This leaves room for the rounding of the norm, a sum of squares over the units of a layer in
    // float32.
    constexpr float kMargin = 1 - 0x1p-13f;
    const D d;
    for (std::int64_t r = 0; r < rows_; ++r) {
      V square = hn::Zero(d);
      for (std::size_t l = 0; l < layers_.size(); ++l) {
        square = hn::Add(square, IsDense(l) ? DenseSquare(l, r) : ConvolutionSquare(l, r));
      }
      const V norm = hn::Add(hn::Sqrt(square), hn::Set(d, 1e-6f));
      const V factor = hn::Div(hn::Set(d, clip * kMargin), norm);
      const V scale = hn::Min(hn::Set(d, 1.0f), factor);
      for (std::size_t l = 0; l < layers_.size(); ++l) Scale(l, r, scale);
    }
  }

  // |d|^2 (|h|^2 + 1) of the examples in row r.
  V DenseSquare(std::size_t l, std::int64_t r) const {
    const V one = hn::Set(D(), 1.0f);
    return hn::Mul(SquareOf(DeltaOf(l), FiltersOf(l), r),
                   hn::Add(SquareOf(InputOf(l), TapsOf(l), r), one));
  }
  static V SquareOf(const float* values, std::span<const std::int32_t> units, std::int64_t r) {
    V sum = hn::Zero(D());
    for (const std::int32_t unit : units) {
      const V value = LoadAt(values, unit * kStrip + r);
      sum = Fma(value, value, sum);
    }
    return sum;
  }
  V ConvolutionSquare(std::size_t l, std::int64_t r) const {
    const Layer& shape = layers_[l].shape;
    const float* const in = InputOf(l);
    V square = hn::Zero(D());
    for (std::int64_t j = 0; j < shape.filters; ++j) {
      const float* const delta = DeltaOf(l) + j * shape.positions * kBlock;
      V bias = hn::Zero(D());
      for (std::int64_t t = 0; t < shape.positions; ++t) {
        bias = hn::Add(bias, LoadAt(delta, t * kStrip + r));
      }
      square = Fma(bias, bias, square);
      for (std::int64_t k = 0; k < shape.taps; ++k) {
        V weight = hn::Zero(D());
        for (std::int64_t t = 0; t < shape.positions; ++t) {
          const std::int64_t input = t * shape.stride + layers_[l].offsets[k];
          weight = Fma(LoadAt(delta, t * kStrip + r), LoadAt(in, input * kStrip + r), weight);
        }
        square = Fma(weight, weight, square);
      }
    }
    return square;
  }
  void Scale(std::size_t l, std::int64_t r, V scale) {
    float* const delta = DeltaOf(l);
    const std::int64_t positions = layers_[l].shape.positions;
    for (const std::int32_t filter : FiltersOf(l)) {
      for (std::int64_t t = 0; t < positions; ++t) {
        const std::int64_t at = (filter * positions + t) * kStrip + r;
        StoreAt(hn::Mul(LoadAt(delta, at), scale), delta, at);
      }
    }
  }

  bool IsDense(std::size_t l) const { return layers_[l].shape.kind == HiddenLayer::Kind::kDense; }
  bool IsLast(std::size_t l) const { return l + 1 == layers_.size(); }
  const float* InputOf(std::size_t l) const {
    return l == 0 ? inputs_.get() : memory_[l - 1].units.get();
  }
  float* DeltaOf(std::size_t l) const {
    return IsLast(l) ? memory_[l].units.get() : memory_[l].delta.get();
  }
  std::span<const std::int32_t> TapsOf(std::size_t l) const {
    if (!IsDense(l)) return memory_[l].all_taps;
    return l == 0 ? active_inputs_.span() : memory_[l - 1].active.span();
  }
  // Units that are 0 in all examples have no derivative: theirs is not even written.
  std::span<const std::int32_t> FiltersOf(std::size_t l) const {
    return IsDense(l) && !IsLast(l) ? memory_[l].active.span()
                                    : std::span<const std::int32_t>(memory_[l].all_filters);
  }

  const Table& table_;
  std::vector<LayerState> layers_;
  std::vector<LayerMemory> memory_;
  Vectors weights_, gradients_;
  Vectors inputs_;
  ActiveList active_inputs_;
  std::int64_t rows_ = 0;  // of the strip that hold examples, filled up to a whole kInner
  std::vector<double> logits_, logit_gradient_;
};

}  // namespace

std::unique_ptr<ExampleGradients> MakeExampleGradients(const Architecture& architecture,
                                                       const Table& table) {
  return std::make_unique<BlockGradients>(architecture, table);
}

}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace lucid {

std::unique_ptr<ExampleGradients> ExampleGradients::Create(const Architecture& architecture,
                                                           const Table& table, InstructionSet set) {
  switch (set) {
#if HWY_TARGETS & HWY_AVX3
    case InstructionSet::kAvx512:
      return N_AVX3::MakeExampleGradients(architecture, table);
#endif
#if HWY_TARGETS & HWY_AVX2
    case InstructionSet::kAvx2:
      return N_AVX2::MakeExampleGradients(architecture, table);
#endif
    default:
      return HWY_STATIC_DISPATCH(MakeExampleGradients)(architecture, table);
  }
}

void CrossEntropy::Gradient(std::int32_t row, std::span<const double> logits,
                            std::span<double> gradient) const {
  const double top = std::ranges::max(logits);
  double total = 0;
  for (std::size_t c = 0; c < logits.size(); ++c) total += gradient[c] = std::exp(logits[c] - top);
  for (double& g : gradient) g /= total;
  gradient[table_.y[row]] -= 1;
}

}  // namespace lucid

#endif  // HWY_ONCE
