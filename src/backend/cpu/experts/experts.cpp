#include "backend/cpu/experts/experts.h"

#include <algorithm>
#include <vector>

#include "backend/cpu/activations.h"
#include "backend/cpu/dense/dot.h"
#include "backend/cpu/floats.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/q8.h"
#include "backend/cpu/split_order.h"

namespace nibble::cpu {
namespace {

// A pair is a row and the row's k-th expert; the pair's number is row * K + k. The pairs of this rank's
// experts are sorted by expert, then by row. A pair's index in this order is its place. A group is all pairs
// of one expert.
struct Group {
  int expert;  // index among this rank's experts
  ptrdiff_t first, count;
};
struct Grouping {
  std::vector<Group> groups;        // one for each expert that some row chose
  std::vector<ptrdiff_t> pair_at;   // number of the pair at each place
  std::vector<ptrdiff_t> place_of;  // [T K]: place of each pair, or kElsewhere
};
constexpr ptrdiff_t kElsewhere{-1};  // the pair's expert is on another rank

Grouping group_by_expert(View<const int, 2> chosen, const IndexRange& own) {
  const ptrdiff_t num_pairs = chosen.shape[0] * chosen.shape[1];
  std::vector<ptrdiff_t> next(own.count);  // [expert]: number of its pairs, later its next free place
  for (ptrdiff_t pair = 0; pair < num_pairs; ++pair)
    if (own.has(chosen.data[pair])) ++next[chosen.data[pair] - own.first];
  Grouping grouping;
  grouping.place_of.resize(num_pairs, kElsewhere);
  ptrdiff_t first = 0;
  for (int e = 0; e < own.count; ++e) {
    const ptrdiff_t count = next[e];
    if (count > 0) grouping.groups.push_back({e, first, count});
    next[e] = first;
    first += count;
  }
  grouping.pair_at.resize(first);
  for (ptrdiff_t pair = 0; pair < num_pairs; ++pair) {
    if (!own.has(chosen.data[pair])) continue;
    const ptrdiff_t place = next[chosen.data[pair] - own.first]++;
    grouping.pair_at[place] = pair;
    grouping.place_of[pair] = place;
  }
  return grouping;
}

Floats swiglu(Floats gate, Floats linear, float limit) {
  gate = lesser(gate, broadcast(limit));
  linear = greater(lesser(linear, broadcast(limit)), broadcast(-limit));
  return gate / (1.0f + fast_exp(-kSwigluAlpha * gate)) * (linear + 1.0f);
}
float swiglu(float gate, float linear, float limit) {
  return swiglu(broadcast(gate), broadcast(linear), limit)[0];
}

// Computes 32 outputs of swiglu, in split order, from 64 elements of u (gates and linear parts alternate).
void swiglu_block(const float* u, const float* biases, float limit, float* gated) {
  for (ptrdiff_t i = 0; i < kBlock / 2; i += 4) {
    Floats part[4];  // each vector: gate and linear part of an even output, then of the next odd output
    for (ptrdiff_t v = 0; v < 4; ++v) part[v] = load(u + 4 * (i + v)) + load(biases + 4 * (i + v));
    const auto low = [](Floats a, Floats b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); };
    const auto high = [](Floats a, Floats b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); };
    const Floats even_02 = low(part[0], part[2]), even_13 = low(part[1], part[3]),
                 odd_02 = high(part[0], part[2]), odd_13 = high(part[1], part[3]);
    store(gated + i, swiglu(low(even_02, even_13), high(even_02, even_13), limit));
    store(gated + kBlock / 2 + i, swiglu(low(odd_02, odd_13), high(odd_02, odd_13), limit));
  }
}

// Number of rows of W1 for one block of h: 32 gates and 32 linear parts.
constexpr ptrdiff_t kBlockRows{2 * kBlock};
void up_swiglu_block(const ExpertsArgs& args, const Group& group, ptrdiff_t block) {
  const Vector bias = args.layer.gate_up.bias(group.expert);
  const ptrdiff_t first_row = block * kBlockRows;
  float biases[kBlockRows];
  for (ptrdiff_t r = 0; r < kBlockRows; ++r) biases[r] = bias[first_row + r];
  float storage[kTokenBlock * kBlockRows];
  const Q8Block* normed[kTokenBlock];
  for (ptrdiff_t first = 0; first < group.count && !args.machine.is_stopped(); first += kTokenBlock) {
    const ptrdiff_t count = std::min<ptrdiff_t>(kTokenBlock, group.count - first);
    const ptrdiff_t place = group.first + first;
    const View<float, 2> u(storage, {count, kBlockRows});
    for (ptrdiff_t p = 0; p < count; ++p) normed[p] = args.normed_q8.row(place + p);
    dot(args.machine.kernels, StripPanelArgs{args.packed->gate_up, group.expert, first_row, normed, u});
    for (ptrdiff_t p = 0; p < count; ++p) {
      float gated[kBlock];
      swiglu_block(u.row(p), biases, args.swiglu_limit, gated);
      args.gated_q8(place + p, block) = to_q8(gated);
    }
  }
}

// Computes h for the pairs of an expert, with float activations, from rows [first_row, first_row + kUpRows)
// of W1.
constexpr ptrdiff_t kUpRows{32};
void up_swiglu_panel(const ExpertsArgs& args, const Grouping& grouping, const Group& group,
                     ptrdiff_t first_row) {
  const Matrix weight = args.layer.gate_up.matrix(group.expert);
  const Vector bias = args.layer.gate_up.bias(group.expert);
  const ptrdiff_t num_rows = std::min(kUpRows, weight.rows - first_row);
  const ptrdiff_t experts_per_token = args.chosen.shape[1];
  float storage[kTokenBlock * kUpRows];
  const float* normed[kTokenBlock];
  for (ptrdiff_t first = 0; first < group.count && !args.machine.is_stopped(); first += kTokenBlock) {
    const ptrdiff_t count = std::min<ptrdiff_t>(kTokenBlock, group.count - first);
    const ptrdiff_t* pairs = &grouping.pair_at[group.first + first];
    const View<float, 2> u(storage, {count, num_rows});
    for (ptrdiff_t p = 0; p < count; ++p) normed[p] = args.normed.row(pairs[p] / experts_per_token);
    dot(args.machine.kernels, PanelArgs{weight, first_row, normed, u});
    for (ptrdiff_t p = 0; p < count; ++p)
      for (ptrdiff_t r = 0; r < num_rows; r += 2)
        args.gated(pairs[p], split_index((first_row + r) / 2)) =
            swiglu(u(p, r) + bias[first_row + r], u(p, r + 1) + bias[first_row + r + 1], args.swiglu_limit);
  }
}

// Prefetches the first codes and scales of a panel. The kernel itself prefetches the rest.
void prefetch_begin(const PackedMatrix& matrix, int which, ptrdiff_t first_row) {
  const ptrdiff_t block = first_row * matrix.cols / kBlock;
  const bool is_q8_0 = matrix.format == Format::kQ8_0;
  const uint8_t* codes = matrix.codes(which) + block * (is_q8_0 ? kBlock : kBlock / 2);
  for (ptrdiff_t line = 0; line < 2048; line += 64) __builtin_prefetch(codes + line, 0, 2);
  const uint8_t* scales = matrix.scales(which) + block * (is_q8_0 ? 2 : 1);
  for (ptrdiff_t line = 0; line < 256; line += 64) __builtin_prefetch(scales + line, 0, 2);
}

// Adds to x[t] the weighted products of h with one panel of the experts' W2: the rows from `first_row` on.
// `storage` holds the products of all T K pairs with that panel.
void down_panel(const ExpertsArgs& args, const Grouping& grouping, ptrdiff_t first_row, float* storage) {
  const ptrdiff_t num_rows =
      std::min<ptrdiff_t>(args.machine.panel_rows(args.x.shape[0]), args.x.shape[1] - first_row);
  const View<float, 2> outputs(storage, {std::ssize(grouping.pair_at), num_rows});
  const float* gated[kTokenBlock];
  const Q8Block* gated_q8[kTokenBlock];
  for (const Group& group : grouping.groups) {
    const Vector bias = args.layer.down.bias(group.expert);
    if (args.packed && &group != &grouping.groups.back())
      prefetch_begin(args.packed->down, (&group)[1].expert, first_row);
    for (ptrdiff_t first = group.first, count; first < group.first + group.count; first += count) {
      if (args.machine.is_stopped()) return;
      count = std::min<ptrdiff_t>(kTokenBlock, group.first + group.count - first);
      const ptrdiff_t* pairs = &grouping.pair_at[first];
      const View<float, 2> y(outputs.row(first), {count, num_rows});
      if (args.packed) {
        for (ptrdiff_t p = 0; p < count; ++p) gated_q8[p] = args.gated_q8.row(first + p);
        dot(args.machine.kernels, StripPanelArgs{args.packed->down, group.expert, first_row, gated_q8, y});
      } else {
        for (ptrdiff_t p = 0; p < count; ++p) gated[p] = args.gated.row(pairs[p]);
        dot(args.machine.kernels, PanelArgs{args.layer.down.matrix(group.expert), first_row, gated, y});
      }
      for (ptrdiff_t p = 0; p < count; ++p)
        for (ptrdiff_t r = 0; r < num_rows; ++r) y(p, r) += bias[first_row + r];
    }
  }

  for (ptrdiff_t t = 0; t < args.x.shape[0]; ++t) {
    float sums[kMaxPanelRows]{};
    for (ptrdiff_t k = 0; k < args.chosen.shape[1]; ++k) {
      const ptrdiff_t place = grouping.place_of[t * args.chosen.shape[1] + k];
      if (place == kElsewhere) continue;
      const float* y = outputs.row(place);
      const float weight = args.weights(t, k);
      for (ptrdiff_t r = 0; r < num_rows; ++r) sums[r] += weight * y[r];
    }
    for (ptrdiff_t r = 0; r < num_rows; ++r) args.x(t, first_row + r) += sums[r];
  }
}

}  // namespace

void experts(const ExpertsArgs& args) {
  const Grouping grouping = group_by_expert(args.chosen, args.own);
  const Matrix &up = args.layer.gate_up.first, &down = args.layer.down.first;
  const auto num_pairs = static_cast<double>(grouping.pair_at.size());

  const double work_up = num_pairs * up.rows * up.cols;
  if (args.packed) {
    const ptrdiff_t num_rows = args.x.shape[0];
    for_each(args.machine, num_rows, static_cast<double>(num_rows * up.cols), [&](ptrdiff_t t, int) {
      const ptrdiff_t experts_per_token = args.chosen.shape[1];
      const ptrdiff_t* places = &grouping.place_of[t * experts_per_token];
      const Q8Block* first = nullptr;
      for (ptrdiff_t k = 0; k < experts_per_token; ++k) {
        if (places[k] == kElsewhere) continue;
        Q8Block* const row = args.normed_q8.row(places[k]);
        if (first)
          std::copy_n(first, up.cols / kBlock, row);
        else
          to_q8(args.normed.row(t), up.cols, row);
        first = row;
      }
    });
    const ptrdiff_t up_blocks = up.rows / kBlockRows;
    const ptrdiff_t step = std::max(1, args.machine.panel_rows(num_rows) / kBlock);
    const ptrdiff_t items = (up_blocks + step - 1) / step;
    for_each(args.machine, std::ssize(grouping.groups) * items, work_up, [&](ptrdiff_t item, int) {
      const ptrdiff_t first = item % items * step, end = std::min(up_blocks, first + step);
      for (ptrdiff_t block = first; block < end; ++block)
        up_swiglu_block(args, grouping.groups[item / items], block);
    });
  } else {
    const ptrdiff_t up_panels = (up.rows + kUpRows - 1) / kUpRows;
    for_each(args.machine, std::ssize(grouping.groups) * up_panels, work_up, [&](ptrdiff_t item, int) {
      up_swiglu_panel(args, grouping, grouping.groups[item / up_panels], item % up_panels * kUpRows);
    });
  }
  const ptrdiff_t panel = args.machine.panel_rows(args.x.shape[0]);
  const ptrdiff_t down_panels = (down.rows + panel - 1) / panel;
  for_each(args.machine, down_panels, num_pairs * down.rows * down.cols, [&](ptrdiff_t item, int thread) {
    down_panel(args, grouping, item * panel, args.down_panels.row(thread, 0));
  });
}

}  // namespace nibble::cpu
