#include <algorithm>
#include <cmath>
#include <optional>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "train/group_trainer.cc"
#include "numeric/simd_targets.h"

#include <hwy/foreach_target.h>  // IWYU pragma: keep: includes this file once per instruction set

#include <hwy/highway.h>

#include "train/clipping-inl.h"
#include "train/group_trainer.h"
#include "train/kernels-inl.h"
#include "train/strip_pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lucid {
namespace HWY_NAMESPACE {
namespace {

// The networks of a group: their weights, and the loop that trains them.
class Group {
 public:
  Group(const TrainPlan& plan, std::span<const LayerState> layers,
        std::span<const std::int64_t> left_out, std::span<const Standardisation> inputs)
      : plan_(plan),
        parameters_(plan.architecture().parameters()),
        arena_(static_cast<std::size_t>(VectorsOf(plan) * L)),
        weights_(TakeVectors(arena_, parameters_)),
        gradients_(TakeVectors(arena_, parameters_)),
        pass_(plan, layers, weights_, left_out, inputs, arena_) {
    if (plan.options().momentum != 0) velocity_ = TakeVectors(arena_, parameters_);
    if (plan.options().average_epochs > 0) average_ = TakeVectors(arena_, parameters_);
    if (plan.clipping()) clipped_.emplace(plan, pass_, gradients_, arena_);
    SetWeights(plan.initial());
  }

  bool Train(const std::stop_token& stop) {
    const bool noisy = plan_.options().method == TrainOptions::Method::kPrivate;
    PlanReader reader(plan_);
    for (std::int64_t step = 0; step < plan_.steps(); ++step) {
      if (stop.stop_requested()) return false;
      if (clipped_) {
        clipped_->Add(reader.Rows(step));
        clipped_->Collect(noisy ? reader.Noise(step) : std::span<const std::int32_t>());
      } else {
        AddGradients(reader.Rows(step));
      }
      Step(plan_.Rate(step));
      if (plan_.IsAveraged(step)) AddToAverage();
    }
    return true;
  }

  // The integer sums of one step at these weights. Requires: the plan clips.
  void Sums(std::span<const float> weights, std::int64_t step, std::span<std::int32_t> out) {
    const auto networks = static_cast<std::int64_t>(out.size()) / parameters_;
    SetWeights(weights);
    PlanReader reader(plan_);
    clipped_->Add(reader.Rows(step));
    alignas(64) std::int32_t sums[L];
    for (std::int64_t i = 0; i < parameters_; ++i) {
      hn::Store(clipped_->Sum(i), DI(), sums);
      for (std::int64_t n = 0; n < networks; ++n) out[n * parameters_ + i] = sums[n];
    }
  }

  void Result(std::span<float> out) const {
    const auto networks = static_cast<std::int64_t>(out.size()) / parameters_;
    const float* result = average_ != nullptr ? average_ : weights_;
    for (std::int64_t i = 0; i < parameters_; ++i) {
      for (std::int64_t n = 0; n < networks; ++n) {
        out[n * parameters_ + i] = result[i * L + n];
      }
    }
  }

 private:
  static std::int64_t VectorsOf(const TrainPlan& plan) {
    const TrainOptions& options = plan.options();
    const int copies = 2 + (options.momentum != 0) + (options.average_epochs > 0);
    return copies * plan.architecture().parameters() + StripPass::VectorsOf(plan) +
           (plan.clipping() ? ClippedSums::VectorsOf(plan) : 0);
  }

  // The same weights in every lane.
  void SetWeights(std::span<const float> weights) {
    for (std::int64_t i = 0; i < parameters_; ++i) StoreAt(hn::Set(D(), weights[i]), weights_, i);
  }

  void AddGradients(std::span<const std::int32_t> rows) {
    const V share = RowWeight(rows);
    for (std::size_t at = 0; at < rows.size(); at += kStrip) {
      const auto strip = rows.subspan(at, std::min<std::size_t>(rows.size() - at, kStrip));
      pass_.Prefetch(rows.subspan(at + strip.size()));
      pass_.Predict(strip);
      pass_.OutputGradient(strip, share);
      for (std::size_t l = pass_.layers(); l-- > 0;) {
        pass_.WeightGradientOf(l, gradients_);
        if (l > 0) pass_.InputGradientOf(l);
      }
    }
  }

  // Per network, 1 / (rows of the batch that are not left out).
  V RowWeight(std::span<const std::int32_t> rows) const {
    const D d;
    const V one = hn::Set(d, 1.0f);
    V missing = hn::Zero(d);
    for (const std::int32_t row : rows) {
      missing = hn::Add(missing, hn::IfThenElseZero(pass_.LeftOut(row), one));
    }
    const V present = hn::Sub(hn::Set(d, static_cast<float>(rows.size())), missing);
    return hn::IfThenElseZero(hn::Gt(present, hn::Zero(d)), hn::Div(one, present));
  }

  void Step(float rate) {
    const D d;
    const V decay = hn::Set(d, static_cast<float>(plan_.options().weight_decay));
    const V momentum = hn::Set(d, static_cast<float>(plan_.options().momentum));
    const V step = hn::Set(d, -rate);
    const V zero = hn::Set(d, plan_.clipping() ? plan_.clipping()->offset : 0.0f);
    for (std::int64_t i = 0; i < parameters_; ++i) {
      const V w = LoadAt(weights_, i);
      V g = Fma(decay, w, LoadAt(gradients_, i));
      StoreAt(zero, gradients_, i);
      if (velocity_ != nullptr) {
        g = Fma(momentum, LoadAt(velocity_, i), g);
        StoreAt(g, velocity_, i);
      }
      StoreAt(Fma(step, g, w), weights_, i);
    }
  }

  void AddToAverage() {
    const V share = hn::Set(D(), 1.0f / static_cast<float>(plan_.options().average_epochs));
    for (std::int64_t i = 0; i < parameters_; ++i) {
      StoreAt(Fma(share, LoadAt(weights_, i), LoadAt(average_, i)), average_, i);
    }
  }

  const TrainPlan& plan_;
  const std::int64_t parameters_;
  Arena arena_;
  float *weights_, *gradients_;
  float *velocity_ = nullptr, *average_ = nullptr;  // where the options ask for them
  StripPass pass_;
  std::optional<ClippedSums> clipped_;  // where the plan clips
};

}  // namespace

constexpr int kLanes = static_cast<int>(L);

bool TrainGroup(const TrainPlan& plan, std::span<const LayerState> layers,
                std::span<const std::int64_t> left_out, std::span<const Standardisation> inputs,
                std::span<float> out, const std::stop_token& stop) {
  Group group(plan, layers, left_out, inputs);
  if (!group.Train(stop)) return false;
  group.Result(out);
  return true;
}

void SumGroup(const TrainPlan& plan, std::span<const LayerState> layers,
              std::span<const std::int64_t> left_out, std::span<const Standardisation> inputs,
              std::span<const float> weights, std::int64_t step, std::span<std::int32_t> out) {
  Group(plan, layers, left_out, inputs).Sums(weights, step, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace lucid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <fmt/format.h>

namespace lucid {
namespace {

struct Path {
  InstructionSet set;
  std::int64_t target;  // Highway's bit, 0: always there
  int lanes;
  TrainGroupFunction train;
  SumGroupFunction sum;
};

constexpr Path kPaths[] = {
#if HWY_TARGETS & HWY_AVX3
    {InstructionSet::kAvx512, HWY_AVX3, N_AVX3::kLanes, N_AVX3::TrainGroup, N_AVX3::SumGroup},
#endif
#if HWY_TARGETS & HWY_AVX2
    {InstructionSet::kAvx2, HWY_AVX2, N_AVX2::kLanes, N_AVX2::TrainGroup, N_AVX2::SumGroup},
#endif
    {InstructionSet::kPortable, 0, HWY_STATIC_DISPATCH(kLanes), HWY_STATIC_DISPATCH(TrainGroup),
     HWY_STATIC_DISPATCH(SumGroup)},
};

const Path& PathOf(InstructionSet set) {
  return *std::ranges::find_if(kPaths, [&](const Path& path) { return path.set == set; });
}

}  // namespace

std::vector<InstructionSet> AvailableInstructionSets() {
  std::vector<InstructionSet> sets;
  for (const Path& path : kPaths) {
    if (path.target == 0 || (hwy::SupportedTargets() & path.target) != 0) sets.push_back(path.set);
  }
  return sets;
}

GroupTrainer::GroupTrainer(const TrainPlan& plan, InstructionSet set)
    : plan_(&plan), set_(set), lanes_(PathOf(set).lanes) {}

namespace {

std::vector<LayerState> LayersOf(const Architecture& architecture) {
  std::vector<LayerState> layers;
  for (const Layer& shape : architecture.layers()) {
    LayerState layer{shape, {}};
    for (std::int64_t k = 0; k < shape.taps; ++k) {
      layer.offsets.push_back(static_cast<std::int32_t>(shape.TapOffset(k)));
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace

Result<std::vector<std::int64_t>> GroupTrainer::UnitsOfLanes(std::span<const std::int64_t> left_out,
                                                             std::size_t outputs) const {
  const auto parameters = static_cast<std::size_t>(plan_->architecture().parameters());
  if (left_out.empty() || left_out.size() > static_cast<std::size_t>(lanes_) ||
      outputs != left_out.size() * parameters) {
    return InternalError(fmt::format("a group of {} networks and {} numbers for {} lanes",
                                     left_out.size(), outputs, lanes_));
  }
  if (plan_->clipping() && plan_->largest_unit() > plan_->options().rows_per_unit) {
    return InternalError(fmt::format("a unit of {} rows where clipping charges for {}",
                                     plan_->largest_unit(), plan_->options().rows_per_unit));
  }
  const auto unit_of = [&](std::int64_t row) {
    return row == kNoRow ? kNoRow : plan_->UnitOf(row);
  };
  std::vector<std::int64_t> lanes(static_cast<std::size_t>(lanes_), unit_of(left_out.front()));
  std::ranges::transform(left_out, lanes.begin(), unit_of);
  return lanes;
}

Status GroupTrainer::StepSums(std::span<const float> weights, std::int64_t step,
                              std::span<const std::int64_t> left_out,
                              std::span<std::int32_t> out) const {
  LUCID_ASSIGN(const auto lanes, UnitsOfLanes(left_out, out.size()));
  if (!plan_->clipping() || step < 0 || step >= plan_->steps() ||
      std::ssize(weights) != plan_->architecture().parameters()) {
    return InternalError(fmt::format("no sums of step {} of this plan", step));
  }
  // What is done to the inputs was published before the step, whoever is in it.
  std::vector<Standardisation> inputs;
  if (plan_->moments()) inputs.assign(lanes.size(), plan_->moments()->Without(kNoRow));
  PathOf(set_).sum(*plan_, LayersOf(plan_->architecture()), lanes, inputs, weights, step, out);
  return Ok();
}

Status GroupTrainer::Train(std::span<const std::int64_t> left_out, std::span<float> out,
                           std::stop_token stop) const {
  const auto parameters = static_cast<std::size_t>(plan_->architecture().parameters());
  LUCID_ASSIGN(const auto lanes, UnitsOfLanes(left_out, out.size()));
  std::vector<Standardisation> inputs;
  if (plan_->moments()) {
    for (const std::int64_t unit : lanes) inputs.push_back(plan_->moments()->Without(unit));
  }
  if (!PathOf(set_).train(*plan_, LayersOf(plan_->architecture()), lanes, inputs, out, stop)) {
    return Interrupted("training stopped on request");
  }
  if (plan_->moments()) {
    for (std::size_t k = 0; k < left_out.size(); ++k) {
      FoldInputs(plan_->architecture(), inputs[k], out.subspan(k * parameters, parameters));
    }
  }
  for (float& w : out) w += 0.0F;  // -0 becomes +0
  if (plan_->options().method == TrainOptions::Method::kPrivate) return Ok();
  for (std::size_t k = 0; k < left_out.size(); ++k) {
    const auto network = out.subspan(k * parameters, parameters);
    if (std::ranges::all_of(network, [](float v) { return std::isfinite(v); })) continue;
    return InvalidInput(
        fmt::format("training diverged: the network {} has weights that are not finite; use a "
                    "smaller learning rate",
                    left_out[k] == kNoRow ? std::string("on all rows")
                                          : fmt::format("without row {}", left_out[k])));
  }
  return Ok();
}

}  // namespace lucid

#endif  // HWY_ONCE
