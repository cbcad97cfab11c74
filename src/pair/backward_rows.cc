#include "pair/backward_rows.h"

#include <algorithm>
#include <utility>

namespace lucid {

void BackwardRows::Start(std::int64_t rows, std::int64_t columns) {
  count = rows;
  z.Reset(rows, columns);
  d.Reset(rows, columns);
  for (PaddedArray* array : {&constant, &size, &value}) array->Reset(rows);
}

void BackwardRows::Substitute(const LinedLayer& layer, bool last) {
  const DenseLayer& network = *layer.network;
  SubstituteLines(count, *layer.lines, layer.size->data(), z, d, constant.data(), size.data());
  AddProduct(z, network.bias.data(), constant.data());
  next_z_.Reset(count, network.weights.columns);
  AddMatrixProduct(z, count, network.weights, *layer.alive, next_z_);
  if (layer.member != nullptr) {
    AddProduct(d, layer.difference->bias.data(), constant.data());
    AddMatrixProduct(d, count, layer.difference->weights, *layer.alive, next_z_);
    next_d_.Reset(count, network.weights.columns);
    if (!last) AddMatrixProduct(d, count, layer.member->weights, *layer.alive, next_d_);
  } else {
    next_d_.Reset(count, network.weights.columns);
  }
  std::swap(z, next_z_);
  std::swap(d, next_d_);
}

void BackwardRows::Maximise(const CentredIntervals& x, const InputPoints& points,
                            std::span<const HalfSpaces* const> cuts) {
  const CentredIntervals& free = points.empty() ? x : points.free();
  MaximiseOverBox(z, count, free.centre.data(), free.radius.data(), x.size.data(), value.data(),
                  size.data());
  if (!points.empty()) {
    for (std::int64_t r = 0; r < count; ++r) value[r] += points.Largest(z.row(r));
  }
  if (std::ranges::all_of(cuts, [](const HalfSpaces* some) { return some->empty(); })) return;
  for (std::int64_t r = 0; r < count; ++r) {
    maximiser_.Lower(x, points, cuts, z.row(r), value[r], size[r]);
  }
}

}  // namespace lucid
