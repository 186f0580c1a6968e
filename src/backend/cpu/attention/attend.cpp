#include "backend/cpu/attention/attend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/dense/qkv.h"
#include "backend/cpu/floats.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/split_order.h"
#include "model/batch.h"

namespace nibble::cpu {
namespace {

constexpr int kMaxHeads{8};  // maximum number of query heads that share one pass over the pages

// Online softmax: sums of weights and of weighted values over scores that arrive page by page, relative to
// the largest score so far. Partial softmaxes over different positions can be merged.
struct Softmax {
  float max[kMaxHeads], sum[kMaxHeads];
  float out[kMaxHeads][kMaxHeadDim];  // the weighted sum of values, in split order

  // Starts the softmax of a head with the head's sink, a score without a value. If `sink` is null, starts the
  // softmax without any score.
  void start(int head, const float* sink, ptrdiff_t width) {
    max[head] = sink ? *sink : std::numeric_limits<float>::lowest();
    sum[head] = sink ? 1 : 0;
    std::fill_n(out[head], width, 0.0f);
  }

  // Adds the first `count` scores of a page: replaces them by weights relative to the maximum, and the page's
  // other scores by 0.
  void add_scores(int head, float* scores, int count, float scale) {
    static_assert(kPageTokens % 4 == 0);
    constexpr float kNone{-std::numeric_limits<float>::infinity()};
    for (int j = count; j < kPageTokens; ++j) scores[j] = kNone;
    Floats maxima = broadcast(max[head]);
    for (int j = 0; j < kPageTokens; j += 4) {
      const Floats scaled = load(scores + j) * scale;
      store(scores + j, scaled);
      maxima = greater(scaled, maxima);
    }
    const float larger = std::max(std::max(maxima[0], maxima[1]), std::max(maxima[2], maxima[3]));
    if (larger != max[head]) {
      const float correction = fast_exp(max[head] - larger);
      sum[head] *= correction;
      for (float& element : out[head]) element *= correction;
      max[head] = larger;
    }
    for (int j = 0; j < kPageTokens; j += 4) store(scores + j, fast_exp(load(scores + j) - larger));
    for (int j = count; j < kPageTokens; ++j) scores[j] = 0;
    Floats sums{};
    for (int j = 0; j < kPageTokens; j += 4) sums += load(scores + j);
    sum[head] += (sums[0] + sums[2]) + (sums[1] + sums[3]);
  }

  // Merges another partial softmax into this one. If this one is empty, the result is a copy of the other
  // one, except for signs of zeros.
  void add(int head, float other_max, float other_sum, const float* other_out, ptrdiff_t width) {
    const float larger = std::max(max[head], other_max);
    const float ours = fast_exp(max[head] - larger), theirs = fast_exp(other_max - larger);
    sum[head] = sum[head] * ours + other_sum * theirs;
    for (ptrdiff_t d = 0; d < width; ++d) out[head][d] = out[head][d] * ours + other_out[d] * theirs;
    max[head] = larger;
  }
};

// A row is split into pieces if its attention for one kv head is more than 1/kItemsPerThread of a thread's
// share of the work, so that all threads finish at about the same time.
constexpr int kItemsPerThread{4};

static_assert(kPiecePositions % kPageTokens == 0);

// The positions [first, end) that a row sees, and their division into pieces.
struct Seen {
  int first, end;

  int num_positions() const { return end - first; }
  int num_pieces() const {
    if (num_positions() <= kPiecePositions) return 1;
    return (end - 1) / kPiecePositions - first / kPiecePositions + 1;
  }
  Seen piece(int index) const {
    if (num_positions() <= kPiecePositions) return *this;
    const int begin = (first / kPiecePositions + index) * kPiecePositions;
    return {std::max(first, begin), std::min(end, begin + kPiecePositions)};
  }
};

Seen seen_by(const BatchRow& row, std::optional<int> window) {
  return {window ? std::max(0, row.position - *window + 1) : 0, row.position + 1};
}

struct Piece {
  Seen seen;
  int index;
};

// Query heads [first, first + count), which share the key/value head kv_head.
struct Heads {
  int kv_head;
  ptrdiff_t first;
  int count;
};

void prefetch(const std::byte* page, const LayerKv& kv) {
  const size_t num_bytes = kPageTokens * kv.row_bytes();
  for (size_t line = 0; line < num_bytes; line += 64) __builtin_prefetch(page + line, 0, 2);
}

// Keys and values of one page, copied into the order of positions, so that kernels add in the same order as
// without a draft tree. The last positions of a row of a tree may be in any slots of the page.
struct GatheredPage {
  static constexpr size_t kMostBytes{size_t{2} * kPageTokens * kMaxHeadDim};  // enough for BF16
  alignas(64) std::byte keys[kMostBytes], values[kMostBytes];

  // Copies the keys and values of positions [first, end), which are all in one page.
  void gather(const LayerKv& kv, const BatchRow& row, int kv_head, int first, int end) {
    const PageTableView& pages = row.pages(kv.kind);
    const size_t row_bytes = kv.row_bytes();
    for (int position = first; position < end; ++position) {
      const int slot = row.slot(position);
      const size_t from = slot % kPageTokens * row_bytes, to = position % kPageTokens * row_bytes;
      std::copy_n(kv.keys(pages, slot, kv_head) + from, row_bytes, keys + to);
      std::copy_n(kv.values(pages, slot, kv_head) + from, row_bytes, values + to);
    }
  }
};

// Computes the partial softmax of one piece of row t. The first piece includes the sink.
void attend_piece(const AttendArgs& args, ptrdiff_t t, const Heads& heads, const Piece& piece,
                  Softmax& softmax) {
  const BatchRow& row = args.rows[t];
  const PageTableView& pages = row.pages(args.kv.kind);
  const int first_in_path = row.position + 1 - static_cast<int>(row.path.size());
  const Kernels& kernels = args.machine.kernels;
  const int head_dim = args.kv.head_dim;
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));

  const float* q[kMaxHeads];
  for (int h = 0; h < heads.count; ++h) {
    q[h] = args.q.row(t, heads.first + h);
    const float sink = args.sinks[heads.first + h];
    softmax.start(h, piece.index == 0 ? &sink : nullptr, padded(head_dim));
  }

  const Seen in_piece = piece.seen.piece(piece.index);
  for (int first = in_piece.first, next; first < in_piece.end; first = next) {
    next = std::min(in_piece.end, (first / kPageTokens + 1) * kPageTokens);
    const int count = next - first, first_in_page = first % kPageTokens;
    if (next < piece.seen.end) {  // the hardware can't predict the next page, because pages are scattered
      prefetch(args.kv.keys(pages, next, heads.kv_head), args.kv);
      prefetch(args.kv.values(pages, next, heads.kv_head), args.kv);
    }
    const std::byte* keys = args.kv.keys(pages, first, heads.kv_head);
    const std::byte* values = args.kv.values(pages, first, heads.kv_head);
    GatheredPage gathered;
    if (next > first_in_path) {
      gathered.gather(args.kv, row, heads.kv_head, first, next);
      keys = gathered.keys;
      values = gathered.values;
    }
    float scores[kMaxHeads][kPageTokens];
    kernels.dot(args.kv.format)
        ->kernel({.weights = keys,
                  .scales = nullptr,
                  .row_scales = nullptr,
                  .cols = head_dim,
                  .first_row = first_in_page,
                  .num_rows = count,
                  .x = q,
                  .num_tokens = heads.count,
                  .y = scores[0],
                  .y_stride = kPageTokens});
    for (int h = 0; h < heads.count; ++h) softmax.add_scores(h, scores[h], count, scale);
    kernels.weigh(args.kv.format)
        ->kernel({.values = values + first_in_page * args.kv.row_bytes(),
                  .num_positions = count,
                  .head_dim = head_dim,
                  .weights = scores[0],
                  .weights_stride = kPageTokens,
                  .num_heads = heads.count,
                  .out = softmax.out[0],
                  .out_stride = kMaxHeadDim});
  }
}

void write(const AttendArgs& args, ptrdiff_t t, ptrdiff_t head, const Softmax& softmax, int h) {
  const ptrdiff_t head_dim = args.kv.head_dim;
  for (ptrdiff_t d = 0; d < head_dim; ++d)
    args.attended(t, split_index(head * head_dim + d)) = softmax.out[h][split_index(d)] / softmax.sum[h];
}

void attend_row(const AttendArgs& args, ptrdiff_t t, const Heads& heads) {
  const Seen seen = seen_by(args.rows[t], args.window);
  const ptrdiff_t width = padded(args.kv.head_dim);
  Softmax softmax;
  if (seen.num_pieces() == 1) {
    attend_piece(args, t, heads, {seen, 0}, softmax);
  } else {
    for (int h = 0; h < heads.count; ++h) softmax.start(h, nullptr, width);
    for (int index = 0; index < seen.num_pieces(); ++index) {
      Softmax part;
      attend_piece(args, t, heads, {seen, index}, part);
      for (int h = 0; h < heads.count; ++h) softmax.add(h, part.max[h], part.sum[h], part.out[h], width);
    }
  }
  for (int h = 0; h < heads.count; ++h) write(args, t, heads.first + h, softmax, h);
}

// Stores the partial softmax of piece `index` of row t in args.parts[place].
void attend_part(const AttendArgs& args, ptrdiff_t t, const Heads& heads, int index, ptrdiff_t place) {
  Softmax softmax;
  attend_piece(args, t, heads, {seen_by(args.rows[t], args.window), index}, softmax);
  for (int h = 0; h < heads.count; ++h) {
    float* part = args.parts.row(place, heads.first + h);
    part[0] = softmax.max[h];
    part[1] = softmax.sum[h];
    std::copy_n(softmax.out[h], padded(args.kv.head_dim), part + 2);
  }
}

// Merges the partial softmaxes args.parts[first_place, first_place + count) in ascending order of pieces.
void join_parts(const AttendArgs& args, ptrdiff_t t, ptrdiff_t head, ptrdiff_t first_place, int count) {
  const ptrdiff_t width = padded(args.kv.head_dim);
  Softmax softmax;
  softmax.start(0, nullptr, width);
  for (int index = 0; index < count; ++index) {
    const float* part = args.parts.row(first_place + index, head);
    softmax.add(0, part[0], part[1], part + 2, width);
  }
  write(args, t, head, softmax, 0);
}

// A work item: a whole row, or one `piece` of a row. Each item runs once for every kv head.
struct Item {
  ptrdiff_t t;
  std::optional<int> piece;
  ptrdiff_t place;  // index of the piece's partial softmax in args.parts
};
struct SplitRow {
  ptrdiff_t t, first_place;
  int num_pieces;
};

}  // namespace

void attend(const AttendArgs& args) {
  const ptrdiff_t num_heads = args.q.shape[1], num_kv_heads = args.kv.num_kv_heads;
  const ptrdiff_t heads_per_kv_head = num_heads / num_kv_heads;
  ptrdiff_t num_seen = 0;
  for (const BatchRow& row : args.rows) num_seen += seen_by(row, args.window).num_positions();

  const ptrdiff_t num_threads = args.machine.pool.num_threads();
  const ptrdiff_t num_shares = num_threads == 1 ? 1 : num_threads * kItemsPerThread;
  std::vector<Item> items;
  std::vector<SplitRow> split_rows;
  ptrdiff_t num_parts = 0;
  for (ptrdiff_t t = 0; t < std::ssize(args.rows); ++t) {
    const Seen seen = seen_by(args.rows[t], args.window);
    const int num_pieces = seen.num_pieces();
    const bool is_large = seen.num_positions() * num_shares > num_seen * num_kv_heads;
    if (num_pieces == 1 || !is_large || num_parts + num_pieces > args.parts.shape[0]) {
      items.push_back({t, std::nullopt, 0});
      continue;
    }
    split_rows.push_back({t, num_parts, num_pieces});
    for (int index = 0; index < num_pieces; ++index) items.push_back({t, index, num_parts++});
  }

  const double head_work = static_cast<double>(num_heads * args.kv.head_dim);
  // Fixed cost of an item per head, in multiply-adds: softmax, and loading queries from other cores' caches.
  constexpr double kItemWork{3000};
  const double work = 2 * static_cast<double>(num_seen) * head_work +
                      kItemWork * static_cast<double>(std::ssize(items) * num_heads);
  for_each(args.machine, std::ssize(items) * num_kv_heads, work, [&](ptrdiff_t i, int) {
    const Item& item = items[i / num_kv_heads];
    const ptrdiff_t kv_head = i % num_kv_heads;
    for (ptrdiff_t head = 0; head < heads_per_kv_head; head += kMaxHeads) {
      const Heads heads{static_cast<int>(kv_head), kv_head * heads_per_kv_head + head,
                        static_cast<int>(std::min<ptrdiff_t>(kMaxHeads, heads_per_kv_head - head))};
      if (item.piece)
        attend_part(args, item.t, heads, *item.piece, item.place);
      else
        attend_row(args, item.t, heads);
    }
  });
  for_each(args.machine, std::ssize(split_rows) * num_heads, static_cast<double>(num_parts) * head_work,
           [&](ptrdiff_t i, int) {
             const SplitRow& row = split_rows[i / num_heads];
             join_parts(args, row.t, i % num_heads, row.first_place, row.num_pieces);
           });
}

}  // namespace nibble::cpu
