#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "nn/foreign.h"

namespace lucid {
namespace {

using onnx::AttributeProto;
using onnx::NodeProto;
using onnx::TensorProto;
using Sizes = std::vector<std::int64_t>;

constexpr std::size_t kMaxModelBytes = 1 << 30;  // protobuf reads at most 2 GB
constexpr std::int64_t kMaxValues = 100'000'000;
constexpr std::size_t kMaxAxes = 64;  // of a tensor; small files could make long lists of sizes

// One node at a time: its attributes, and the constants that it takes. Errors name the node.
class NodeReader {
 protected:
  explicit NodeReader(std::string source) : source_(std::move(source)) {}

  Error Refuse(const std::string& problem) const {
    if (node_ == nullptr) return InvalidInput(fmt::format("{}: {}", source_, problem));
    return InvalidInput(fmt::format("{}: node {} ({}): {}", source_, Quoted(NameOf(*node_)),
                                    Quoted(node_->op_type()), problem));
  }
  static const std::string& NameOf(const NodeProto& node) {
    return node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  }

  Status AddConstant() {
    const AttributeProto* value = Find("value");
    if (value == nullptr || !value->has_t()) return Refuse("only tensor constants are supported");
    constants_[node_->output(0)] = &value->t();
    return Ok();
  }

  const AttributeProto* Find(std::string_view name) const {
    for (const AttributeProto& attribute : node_->attribute()) {
      if (attribute.name() == name) return &attribute;
    }
    return nullptr;
  }
  std::int64_t Whole(std::string_view name, std::int64_t otherwise) const {
    const AttributeProto* attribute = Find(name);
    return attribute == nullptr ? otherwise : attribute->i();
  }
  // What an operator has beyond these would change its meaning.
  Status CheckAttributes(const std::map<std::string, AttributeProto::AttributeType>& known) const {
    for (const AttributeProto& attribute : node_->attribute()) {
      const auto found = known.find(attribute.name());
      if (found == known.end() || found->second != attribute.type()) {
        return Refuse(fmt::format("attribute {} is not supported, or has another type",
                                  Quoted(attribute.name())));
      }
    }
    return Ok();
  }
  Status CheckAll(std::string_view name, std::int64_t value) const {
    const AttributeProto* attribute = Find(name);
    if (attribute == nullptr) return Ok();
    if (std::ranges::all_of(attribute->ints(), [&](auto v) { return v == value; })) return Ok();
    return Refuse(fmt::format("{} other than {} are not supported", name, value));
  }

  Result<const TensorProto*> ConstantAt(int input) const {
    if (input >= node_->input_size()) return Refuse(fmt::format("has no input {}", input));
    const auto found = constants_.find(node_->input(input));
    if (found != constants_.end()) return found->second;
    return Refuse(fmt::format("its input {} is not a constant", Quoted(node_->input(input))));
  }

  // The values of a constant as they are stored, raw or in a list.
  template <typename T, typename List>
  Result<std::vector<T>> Values(const TensorProto& tensor, const List& list) const {
    const auto bad = [&](std::string_view rule) {
      return Refuse(fmt::format("constant {}: {}", Quoted(tensor.name()), rule));
    };
    if (tensor.data_location() == TensorProto::EXTERNAL) {
      return bad("is kept in another file: save the model in one file");
    }
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.dims()) {
      if (size < 1 || size > kMaxValues / count) return bad("has an empty or too large shape");
      count *= size;
    }
    std::vector<T> values(static_cast<std::size_t>(count));
    if (tensor.has_raw_data()) {
      if (tensor.raw_data().size() != values.size() * sizeof(T)) return bad("has a wrong size");
      std::memcpy(values.data(), tensor.raw_data().data(), tensor.raw_data().size());
    } else {
      if (list.size() != count) return bad("has a wrong size");
      std::copy(list.begin(), list.end(), values.begin());
    }
    return values;
  }
  Result<std::vector<float>> Floats(const TensorProto& tensor) const {
    if (tensor.data_type() != TensorProto::FLOAT) {
      return Refuse(fmt::format("constant {} is not float32", Quoted(tensor.name())));
    }
    return Values<float>(tensor, tensor.float_data());
  }
  Result<Sizes> Wholes(const TensorProto& tensor) const {
    if (tensor.data_type() != TensorProto::INT64) {
      return Refuse(fmt::format("constant {} is not int64", Quoted(tensor.name())));
    }
    return Values<std::int64_t>(tensor, tensor.int64_data());
  }

  const std::string source_;
  const NodeProto* node_ = nullptr;  // nullptr: the whole model
  std::map<std::string, const TensorProto*> constants_;
};

struct Normalization {
  const std::vector<float>&scale, &shift, &mean, &variance;  // one value for each unit
  float epsilon;
};

// Unit u of the layer becomes scale (w x + b - mean) / sqrt(variance + epsilon) + shift. Computed
// in double, rounded to float32 once.
void Fold(const Normalization& by, std::vector<float>& weights, std::vector<float>& bias) {
  const std::size_t units = by.scale.size(), inputs = weights.size() / units;
  bias.resize(units, 0.0F);
  for (std::size_t u = 0; u < units; ++u) {
    const double factor =
        double{by.scale[u]} / std::sqrt(double{by.variance[u]} + double{by.epsilon});
    for (float& w : std::span(weights).subspan(u * inputs, inputs)) {
      w = static_cast<float>(double{w} * factor);
    }
    bias[u] =
        static_cast<float>((double{bias[u]} - double{by.mean[u]}) * factor + double{by.shift[u]});
  }
}

constexpr std::int64_t kBatch = std::numeric_limits<std::int64_t>::min();  // for its unknown size

// Nodes that compute with sizes: `x.view(x.size(0), -1)` is Shape, Gather, Unsqueeze and Concat
// before its Reshape.
class SizesReader : protected NodeReader {
 protected:
  using NodeReader::NodeReader;

  // Whether the node is one of these; its result is in sizes_ then.
  Result<bool> ReadSizes() {
    const std::string& op = node_->op_type();
    if (op != "Shape" && op != "Gather" && op != "Unsqueeze" && op != "Concat") return false;
    const auto is_size = [&](const std::string& name) { return sizes_.contains(name); };
    if (op != "Shape" && std::ranges::none_of(node_->input(), is_size)) return false;
    LUCID_ASSIGN(Sizes sizes, op == "Shape"    ? Shape()
                              : op == "Gather" ? Gather()
                              : op == "Concat" ? Concat()
                                               : OneSize());
    sizes_[node_->output(0)] = std::move(sizes);
    return true;
  }

  // The whole numbers of an input: a constant, or computed from sizes.
  Result<Sizes> SizesAt(int input) const {
    if (input < node_->input_size()) {
      const auto found = sizes_.find(node_->input(input));
      if (found != sizes_.end()) return found->second;
    }
    LUCID_ASSIGN(const TensorProto* tensor, ConstantAt(input));
    return Wholes(*tensor);
  }

  bool IsThere(const std::string& name) const {
    return constants_.contains(name) || sizes_.contains(name) || axes_of_.contains(name);
  }

  std::map<std::string, Sizes> axes_of_;  // of each value of the chain, without the batch

 private:
  Result<Sizes> Shape() const {
    LUCID_TRY(CheckAttributes({}));
    const auto found = node_->input_size() == 1 ? axes_of_.find(node_->input(0)) : axes_of_.end();
    if (found == axes_of_.end()) return Refuse("is not of a value of the chain");
    Sizes sizes = found->second;
    sizes.insert(sizes.begin(), kBatch);
    return sizes;
  }

  Result<Sizes> Gather() const {
    LUCID_TRY(CheckAttributes({{"axis", AttributeProto::INT}}));
    LUCID_ASSIGN(const Sizes sizes, SizesAt(0));
    LUCID_ASSIGN(const Sizes place, SizesAt(1));
    const std::int64_t count = std::ssize(sizes);
    if (node_->input_size() != 2 || Whole("axis", 0) != 0 || place.size() != 1 ||
        place[0] < -count || place[0] >= count) {
      return Refuse("takes something else than one of the sizes");
    }
    return Sizes{sizes[static_cast<std::size_t>(place[0] < 0 ? place[0] + count : place[0])]};
  }

  Result<Sizes> OneSize() const {
    LUCID_ASSIGN(const Sizes sizes, SizesAt(0));
    if (sizes.size() == 1) return sizes;
    return Refuse("is not of one size");
  }

  Result<Sizes> Concat() const {
    LUCID_TRY(CheckAttributes({{"axis", AttributeProto::INT}}));
    Sizes all;
    for (int i = 0; i < node_->input_size(); ++i) {
      LUCID_ASSIGN(const Sizes sizes, SizesAt(i));
      all.insert(all.end(), sizes.begin(), sizes.end());
      if (all.size() > kMaxAxes) {
        return Refuse(fmt::format("makes a list of more than {} sizes", kMaxAxes));
      }
    }
    return all;
  }

  std::map<std::string, Sizes> sizes_;
};

// Nodes that only name the axes anew. A value is described by its axes after the first, which is
// the batch; row-major order is our order of units, so reshaping moves nothing.
class AxesReader : protected SizesReader {
 protected:
  using SizesReader::SizesReader;

  // The first input is the value the chain has reached; the others are constants.
  Status OnlyCurrent(int most_inputs) const {
    if (node_->input_size() < 1 || node_->input_size() > most_inputs) {
      return Refuse(fmt::format("has {} inputs", node_->input_size()));
    }
    if (node_->input(0) == current_) return Ok();
    return Refuse(fmt::format("takes {} where the chain has reached {}: not a chain of layers",
                              Quoted(node_->input(0)), Quoted(current_)));
  }

  std::int64_t Count() const {
    std::int64_t count = 1;
    for (const std::int64_t size : axes_) count *= size;
    return count;
  }

  Status Flatten() {
    LUCID_TRY(OnlyCurrent(1));
    LUCID_TRY(CheckAttributes({{"axis", AttributeProto::INT}}));
    const auto rank = static_cast<std::int64_t>(axes_.size()) + 1;
    const std::int64_t axis = Whole("axis", 1);
    if (axis != 1 && axis != 1 - rank) return Refuse("axis must be 1");
    axes_ = {Count()};
    return Ok();
  }

  Status Reshape() {
    LUCID_TRY(OnlyCurrent(2));
    LUCID_TRY(CheckAttributes({{"allowzero", AttributeProto::INT}}));
    LUCID_ASSIGN(Sizes shape, SizesAt(1));
    if (!shape.empty() && shape[0] == kBatch) shape[0] = 0;  // kept
    if (shape.size() < 2 || shape[0] < -1 || shape[0] > 1 || Whole("allowzero", 0) != 0) {
      return Refuse("has to keep the batch axis");
    }
    Sizes axes;
    std::int64_t known = 1;
    std::optional<std::size_t> open;
    for (std::size_t i = 1; i < shape.size(); ++i) {
      std::int64_t size = shape[i];
      if (size == 0 && i <= axes_.size()) size = axes_[i - 1];
      if (size == -1 && !open && shape[0] != -1) {
        open = i - 1;
        size = 1;
      }
      if (size < 1 || size > Count() / known) return Refuse("does not keep the number of values");
      known *= size;
      axes.push_back(size);
    }
    if (open) axes[*open] = Count() / known;
    if (Count() % known != 0 || (!open && known != Count())) {
      return Refuse("does not keep the number of values");
    }
    axes_ = std::move(axes);
    return Ok();
  }

  // The axes to add or remove: an attribute before opset 13, then an input. Sorted, the batch being
  // axis 0, negative ones counted from the end of `rank` axes.
  Result<Sizes> Axes(std::int64_t rank) const {
    LUCID_TRY(CheckAttributes({{"axes", AttributeProto::INTS}}));
    Sizes axes;
    if (const AttributeProto* attribute = Find("axes")) {
      axes.assign(attribute->ints().begin(), attribute->ints().end());
      rank += static_cast<std::int64_t>(axes.size()) * (node_->op_type() == "Unsqueeze");
    } else {
      LUCID_ASSIGN(const TensorProto* tensor, ConstantAt(1));
      LUCID_ASSIGN(axes, Wholes(*tensor));
      rank += static_cast<std::int64_t>(axes.size()) * (node_->op_type() == "Unsqueeze");
    }
    for (std::int64_t& axis : axes) {
      if (axis < 0) axis += rank;
      if (axis < 1 || axis >= rank) return Refuse("its axes have to lie after the batch axis");
    }
    std::ranges::sort(axes);
    if (std::ranges::adjacent_find(axes) != axes.end()) return Refuse("names an axis twice");
    return axes;
  }

  Status Unsqueeze() {
    LUCID_TRY(OnlyCurrent(2));
    LUCID_ASSIGN(const Sizes axes, Axes(static_cast<std::int64_t>(axes_.size()) + 1));
    for (const std::int64_t axis : axes) axes_.insert(axes_.begin() + (axis - 1), 1);
    return Ok();
  }

  Status Squeeze() {
    LUCID_TRY(OnlyCurrent(2));
    LUCID_ASSIGN(Sizes axes, Axes(static_cast<std::int64_t>(axes_.size()) + 1));
    std::ranges::reverse(axes);
    for (const std::int64_t axis : axes) {
      if (axes_[static_cast<std::size_t>(axis - 1)] != 1)
        return Refuse("removes an axis of values");
      axes_.erase(axes_.begin() + (axis - 1));
    }
    return Ok();
  }

  std::string current_;  // the name of the value the chain has reached
  Sizes axes_;           // its axes after the batch
};

// Walks the nodes from the input to the output.
class ChainReader : AxesReader {
 public:
  ChainReader(const onnx::GraphProto& graph, NetworkFit fit, std::string source)
      : AxesReader(std::move(source)), graph_(graph), fit_(std::move(fit)) {}

  Result<Network> Read() {
    LUCID_TRY(Start());
    for (const NodeProto& node : graph_.node()) {
      node_ = &node;
      LUCID_TRY(Step());
    }
    node_ = nullptr;
    if (graph_.output_size() != 1 || graph_.output(0).name() != current_) {
      return Refuse(fmt::format("its chain of nodes ends in {}, which is not its one output",
                                Quoted(current_)));
    }
    if (relu_after_last_) return Refuse("ends in Relu: the network has to end in the logits");
    return Assemble();
  }

 private:
  struct WeightedLayer {
    ForeignLayer layer;
    std::vector<float> weights, bias;  // weights [out][in] or [filter][channel][tap]; bias or empty
  };

  // The constants, and the one input that is none.
  Status Start() {
    for (const TensorProto& tensor : graph_.initializer()) {
      if (!constants_.emplace(tensor.name(), &tensor).second) {
        return Refuse(fmt::format("has two constants {}", Quoted(tensor.name())));
      }
    }
    const onnx::ValueInfoProto* input = nullptr;
    for (const onnx::ValueInfoProto& value : graph_.input()) {
      if (constants_.contains(value.name())) continue;
      if (input != nullptr) return Refuse("has more than one input");
      input = &value;
    }
    if (input == nullptr) return Refuse("has no input");
    current_ = input->name();
    const auto& type = input->type().tensor_type();
    if (type.elem_type() != TensorProto::FLOAT) return Refuse("its input is not float32");
    if (type.shape().dim_size() < 2) {
      return Refuse("its input has to have a batch axis and a feature axis");
    }
    std::int64_t values = 1;
    for (int i = 1; i < type.shape().dim_size(); ++i) {
      const std::int64_t size = type.shape().dim(i).dim_value();
      if (size < 1 || size > fit_.inputs) {
        return Refuse(fmt::format("axis {} of its input is {}, the data has {} features", i, size,
                                  fit_.inputs));
      }
      values *= size;
      axes_.push_back(size);
      if (axes_.size() > kMaxAxes) return Refuse("its input has too many axes");
      if (values > fit_.inputs) break;
    }
    if (values != fit_.inputs) {
      return Refuse(
          fmt::format("its input has {} values, the data has {} features", values, fit_.inputs));
    }
    axes_of_[current_] = axes_;
    return Ok();
  }

  Status Step() {
    const NodeProto& node = *node_;
    const std::string& op = node.op_type();
    if (!node.domain().empty() && node.domain() != "ai.onnx") {
      return Refuse(fmt::format("operators of {} are not supported", Quoted(node.domain())));
    }
    // A Dropout's second output is its mask.
    if (node.output_size() != 1 && (op != "Dropout" || node.output_size() != 2)) {
      return Refuse("has more than one output, or none");
    }
    if (softmax_ && op != "Identity" && op != "Constant") {
      return Refuse("comes after a Softmax or LogSoftmax, which may only be the end");
    }
    if (IsThere(node.output(0))) {
      return Refuse(fmt::format("its output {} is there already", Quoted(node.output(0))));
    }
    if (op == "Constant") return AddConstant();
    LUCID_ASSIGN(const bool is_size, ReadSizes());
    if (is_size) return Ok();
    if (op == "Identity" && node.input_size() == 1 && constants_.contains(node.input(0))) {
      constants_[node.output(0)] = constants_.at(node.input(0));
      return Ok();
    }
    Status done = Refuse(
        "not supported (a chain of Gemm, MatMul, Add, Conv, BatchNormalization, Relu, Flatten, "
        "Reshape, Unsqueeze, Squeeze, Dropout and Identity is, with Softmax or LogSoftmax at its "
        "end)");
    if (op == "Gemm") done = Gemm();
    if (op == "MatMul") done = MatMul();
    if (op == "Add") done = Add();
    if (op == "Conv") done = Conv();
    if (op == "Relu") done = Relu();
    if (op == "Flatten") done = Flatten();
    if (op == "Reshape") done = Reshape();
    if (op == "Unsqueeze") done = Unsqueeze();
    if (op == "Squeeze") done = Squeeze();
    if (op == "Identity") done = OnlyCurrent(1);
    if (op == "Dropout") done = Dropout();
    if (op == "BatchNormalization") done = BatchNormalization();
    if (op == "Softmax" || op == "LogSoftmax") done = Softmax();
    if (op == "MatMul" || op == "Add" || op == "Relu") LUCID_TRY(CheckAttributes({}));
    LUCID_TRY(done);
    if (axes_.size() > kMaxAxes) {
      return Refuse(fmt::format("makes a value of more than {} axes", kMaxAxes));
    }
    current_ = node.output(0);
    axes_of_[current_] = axes_;
    return Ok();
  }

  Status CheckReluBefore() const {
    if (layers_.empty() || relu_after_last_) return Ok();
    return Refuse(fmt::format("no Relu between it and the layer before, {}",
                              Quoted(layers_.back().layer.name)));
  }

  // Appends a dense layer of `tensor`, [out, in] or (if not) [in, out].
  Status Dense(const TensorProto& tensor, bool out_first) {
    LUCID_TRY(CheckReluBefore());
    LUCID_ASSIGN(std::vector<float> given, Floats(tensor));
    if (tensor.dims_size() != 2) return Refuse("its weights need two axes");
    if (axes_.size() != 1) {
      return Refuse(fmt::format("its input has {} axes and the batch; flatten it", axes_.size()));
    }
    const std::int64_t out = tensor.dims(out_first ? 0 : 1), in = tensor.dims(out_first ? 1 : 0);
    if (in != axes_[0]) {
      return Refuse(fmt::format("takes {} inputs where {} come", in, axes_[0]));
    }
    WeightedLayer read{{.name = NameOf(*node_), .units = out, .inputs = in}, std::move(given), {}};
    if (!out_first) {
      std::vector<float> turned(read.weights.size());
      for (std::int64_t i = 0; i < in; ++i) {
        for (std::int64_t o = 0; o < out; ++o) turned[o * in + i] = read.weights[i * out + o];
      }
      read.weights = std::move(turned);
    }
    axes_ = {out};
    Append(std::move(read));
    return Ok();
  }
  void Append(WeightedLayer read) {
    layers_.push_back(std::move(read));
    relu_after_last_ = false;
    linear_ = true;
  }

  Status Bias(const TensorProto& tensor) {
    LUCID_ASSIGN(std::vector<float> bias, Floats(tensor));
    const std::int64_t units = layers_.back().layer.units;
    const int axes = tensor.dims_size();
    const bool row = axes == 1 || (axes == 2 && tensor.dims(0) == 1);
    if (!row || static_cast<std::int64_t>(bias.size()) != units) {
      return Refuse(fmt::format("what it adds is not one value for each of {} outputs", units));
    }
    layers_.back().bias = std::move(bias);
    return Ok();
  }

  Status Gemm() {
    LUCID_TRY(OnlyCurrent(3));
    LUCID_TRY(CheckAttributes({{"alpha", AttributeProto::FLOAT},
                               {"beta", AttributeProto::FLOAT},
                               {"transA", AttributeProto::INT},
                               {"transB", AttributeProto::INT}}));
    const bool third = node_->input_size() == 3 && !node_->input(2).empty();
    for (const char* scale : {"alpha", "beta"}) {
      const AttributeProto* attribute = Find(scale);
      if (attribute != nullptr && attribute->f() != 1) {
        return Refuse(fmt::format("{} is {}, must be 1", scale, attribute->f()));
      }
    }
    if (Whole("transA", 0) != 0) return Refuse("transA must be 0");
    LUCID_ASSIGN(const TensorProto* weights, ConstantAt(1));
    LUCID_TRY(Dense(*weights, Whole("transB", 0) != 0));
    if (!third) return Ok();
    LUCID_ASSIGN(const TensorProto* bias, ConstantAt(2));
    return Bias(*bias);
  }

  Status MatMul() {
    LUCID_TRY(OnlyCurrent(2));
    LUCID_ASSIGN(const TensorProto* weights, ConstantAt(1));
    return Dense(*weights, /*out_first=*/false);
  }

  Status Add() {
    if (node_->input_size() != 2) return Refuse("needs two inputs");
    const int value = node_->input(0) == current_ ? 0 : 1;  // a + b is b + a
    if (node_->input(value) != current_) return OnlyCurrent(2);
    LUCID_ASSIGN(const TensorProto* bias, ConstantAt(1 - value));
    if (!linear_ || axes_.size() != 1 || !layers_.back().bias.empty() ||
        layers_.back().layer.kind != HiddenLayer::Kind::kDense) {
      return Refuse("is only supported as the bias of the MatMul before it");
    }
    LUCID_TRY(Bias(*bias));
    linear_ = false;
    return Ok();
  }

  Status Conv() {
    LUCID_TRY(OnlyCurrent(3));
    LUCID_TRY(CheckAttributes({{"auto_pad", AttributeProto::STRING},
                               {"dilations", AttributeProto::INTS},
                               {"group", AttributeProto::INT},
                               {"kernel_shape", AttributeProto::INTS},
                               {"pads", AttributeProto::INTS},
                               {"strides", AttributeProto::INTS}}));
    LUCID_TRY(CheckReluBefore());
    const AttributeProto* pad = Find("auto_pad");
    if (pad != nullptr && pad->s() != "NOTSET" && pad->s() != "VALID") {
      return Refuse("auto_pad is not supported");
    }
    if (Whole("group", 1) != 1) return Refuse("groups are not supported");
    LUCID_TRY(CheckAll("dilations", 1));
    LUCID_TRY(CheckAll("pads", 0));
    LUCID_ASSIGN(const TensorProto* tensor, ConstantAt(1));
    if (tensor->dims_size() != 3 || axes_.size() != 2) {
      return Refuse("only convolutions along one axis are supported");
    }
    LUCID_TRY(CheckAll("kernel_shape", tensor->dims(2)));
    LUCID_ASSIGN(std::vector<float> weights, Floats(*tensor));
    const AttributeProto* strides = Find("strides");
    if (strides != nullptr && strides->ints_size() != 1) return Refuse("needs one stride");
    const std::int64_t stride = strides == nullptr ? 1 : strides->ints(0);
    const std::int64_t filters = tensor->dims(0), channels = tensor->dims(1),
                       width = tensor->dims(2);
    if (channels != axes_[0] || width > axes_[1] || stride < 1) {
      return Refuse(
          fmt::format("{} channels, width {} and stride {} do not fit {} channels of {} values",
                      channels, width, stride, axes_[0], axes_[1]));
    }
    axes_ = {filters, (axes_[1] - width) / stride + 1};
    Append({{.name = NameOf(*node_),
             .kind = HiddenLayer::Kind::kConv,
             .units = filters,
             .inputs = channels,
             .width = width,
             .stride = stride},
            std::move(weights),
            {}});
    if (node_->input_size() < 3 || node_->input(2).empty()) return Ok();
    LUCID_ASSIGN(const TensorProto* bias, ConstantAt(2));
    return Bias(*bias);
  }

  Status Relu() {
    LUCID_TRY(OnlyCurrent(1));
    if (layers_.empty()) return Refuse("stands before the first layer");
    relu_after_last_ = true;
    linear_ = false;
    return Ok();
  }

  // Outside of training it does nothing.
  Status Dropout() const {
    LUCID_TRY(OnlyCurrent(3));
    LUCID_TRY(CheckAttributes({{"ratio", AttributeProto::FLOAT}, {"seed", AttributeProto::INT}}));
    if (node_->input_size() < 3 || node_->input(2).empty()) return Ok();
    LUCID_ASSIGN(const TensorProto* training, ConstantAt(2));
    const bool on = training->has_raw_data()
                        ? std::ranges::any_of(training->raw_data(), [](char c) { return c != 0; })
                        : std::ranges::any_of(training->int32_data(), [](int v) { return v != 0; });
    return on ? Status(Refuse("is in training mode: export the model after model.eval()")) : Ok();
  }

  // Goes into the weights of the layer before it: each of these is rounded once more.
  Status BatchNormalization() {
    LUCID_TRY(OnlyCurrent(5));
    LUCID_TRY(CheckAttributes({{"epsilon", AttributeProto::FLOAT},
                               {"momentum", AttributeProto::FLOAT},
                               {"spatial", AttributeProto::INT},
                               {"training_mode", AttributeProto::INT}}));
    if (Whole("training_mode", 0) != 0) {
      return Refuse("is in training mode: export the model after model.eval()");
    }
    if (Whole("spatial", 1) != 1) return Refuse("spatial must be 1");
    if (layers_.empty() || relu_after_last_) {
      return Refuse("has to stand straight after a layer, before its Relu");
    }
    WeightedLayer& before = layers_.back();
    const bool dense = before.layer.kind == HiddenLayer::Kind::kDense;
    if (axes_.size() != (dense ? 1U : 2U)) return Refuse("does not stand straight after a layer");
    const auto units = static_cast<std::size_t>(before.layer.units);
    std::array<std::vector<float>, 4> given;
    for (int i = 0; i < 4; ++i) {
      LUCID_ASSIGN(const TensorProto* tensor, ConstantAt(i + 1));
      LUCID_ASSIGN(given[static_cast<std::size_t>(i)], Floats(*tensor));
      if (given[static_cast<std::size_t>(i)].size() != units) {
        return Refuse(fmt::format("constant {} is not one value for each of {} outputs",
                                  Quoted(tensor->name()), units));
      }
    }
    const AttributeProto* epsilon = Find("epsilon");
    Fold({given[0], given[1], given[2], given[3], epsilon == nullptr ? 1e-5F : epsilon->f()},
         before.weights, before.bias);
    linear_ = false;
    return Ok();
  }

  // The label is that of the logits, and a confidence is a difference of them.
  Status Softmax() {
    LUCID_TRY(OnlyCurrent(1));
    LUCID_TRY(CheckAttributes({{"axis", AttributeProto::INT}}));
    const std::int64_t axis = Whole("axis", 1);  // the last one by default, or 1 before opset 13
    if (axes_.size() != 1 || (axis != 1 && axis != -1)) {
      return Refuse("has to be along the classes");
    }
    if (layers_.empty() || relu_after_last_) return Refuse("has to come after the logits");
    softmax_ = true;
    return Ok();
  }

  Result<Network> Assemble() {
    std::vector<ForeignLayer> chain;
    for (const WeightedLayer& read : layers_) chain.push_back(read.layer);
    LUCID_ASSIGN(Architecture architecture, ChainLayers(chain, fit_, source_));
    if (axes_ != Sizes{fit_.classes}) return Refuse("its output is not one value for each class");
    Network network{std::move(architecture), {}};
    for (const WeightedLayer& read : layers_) {
      auto& out = network.parameters;
      out.insert(out.end(), read.weights.begin(), read.weights.end());
      const auto units = static_cast<std::size_t>(read.layer.units);
      if (read.bias.empty()) out.resize(out.size() + units, 0.0F);
      out.insert(out.end(), read.bias.begin(), read.bias.end());
    }
    LUCID_TRY(CheckFinite(network.parameters, source_));
    return network;
  }

  const onnx::GraphProto& graph_;
  NetworkFit fit_;
  std::vector<WeightedLayer> layers_;
  bool relu_after_last_ = false;
  bool linear_ = false;   // straight after a layer: its bias may follow
  bool softmax_ = false;  // and so at the end
};

}  // namespace

Result<Network> ReadOnnx(std::span<const std::byte> bytes, const NetworkFit& fit,
                         const std::string& source) {
  onnx::ModelProto model;
  if (bytes.size() > kMaxModelBytes ||
      !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model.has_graph()) {
    return InvalidInput(fmt::format("{}: not an ONNX model, or damaged", source));
  }
  return ChainReader(model.graph(), fit, source).Read();
}

}  // namespace lucid
