// Tests the guarantees of the scheduler over random arrivals, in a simulation that keeps its own records.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "core/numbers/random.h"
#include "engine/scheduler.h"

namespace nibble {
namespace {

// Simulates arrivals of all lengths and priorities, with and without common prefixes, against a cache that is
// too small for them. Some sequences end early, some are cancelled while they wait, many are preempted, and
// some steps fail. Each step is checked against the test's own records and against a store in which every
// position holds a fingerprint of the text up to it.
//
// `runs_ahead`: the tokens of a step are reported after the next step is planned. `drafts`: many slices end
// in drafts, of which some are right. With SchedulerOptions::launches_before_drafts and one step ahead, the
// next step is planned before the scheduler learns which drafts are right. `priorities`: number of
// priorities.
class Simulation {
  static constexpr RequestId id(int n) { return static_cast<RequestId>(n); }

 public:
  Simulation(const SchedulerOptions& given, bool runs_ahead, bool drafts, int priorities, unsigned seed)
      : options_(given),
        runs_ahead_(runs_ahead),
        drafts_(drafts),
        num_priorities_(priorities),
        scheduler_(given),
        random_(seed),
        pages_(static_cast<size_t>(given.num_kv_caches * given.num_pages)) {
    for (std::vector<TokenId>& text : texts_) {
      text.resize(static_cast<size_t>(1 + below(150)));
      for (TokenId& token : text) token = below(1000);
    }
  }

  void run(int num_requests) {
    int num_steps = 0;
    for (int n = 0; n < num_requests || !books_.empty(); ++num_steps) {
      if (num_here() < 40 * options_.num_kv_caches && below(3) == 0) {
        for (int burst = 1 + below(6 * options_.num_kv_caches); burst > 0 && n < num_requests; --burst)
          add(id(++n));
      }
      if (!books_.empty() && below(40) == 0) remove(std::next(books_.begin(), below(num_here()))->first);
      step();
      if (testing::Test::HasFatalFailure()) return;
      ASSERT_LT(num_steps, 100 * num_requests) << "it does not come to an end";
    }
    EXPECT_TRUE(scheduler_.is_idle());
    EXPECT_EQ(num_held_pages(), 0);
    EXPECT_GT(num_put_aside_, static_cast<uint64_t>(num_requests / 500))
        << "the cache was never short: the simulation shows too little";
    if (options_.prefix_cache) {
      EXPECT_GT(num_cached_, num_begun_ / 20) << "nothing was shared";
    }
    for (size_t cache = 0; cache < static_cast<size_t>(options_.num_kv_caches); ++cache)
      EXPECT_GT(num_slices_of_.at(cache), num_requests) << "KV cache " << cache;
    EXPECT_TRUE(options_.prefix_cache || num_overtaking_ > num_requests / 500)
        << "none was overtaken: the simulation shows too little";
    EXPECT_EQ(num_right_ > num_requests, drafts_);
    EXPECT_EQ(num_wrong_ > num_requests, drafts_);
    EXPECT_EQ(num_drafts_after_drafts_ > num_requests, runs_ahead_ && options_.launches_before_drafts);
    // num_put_aside_ lacks the sequences preempted in the step that admitted them, before they ran.
    EXPECT_LE(num_put_aside_, scheduler_.counts().num_preemptions);
  }

 private:
  using Page = std::array<uint64_t, kPageTokens>;
  struct Book {
    std::vector<TokenId> tokens;
    std::vector<uint64_t> fingerprints;  // [p]: fingerprint of the text up to position p
    // num_prompt: tokens of the prompt. num_at_most: limit of prompt and answer. leaves_after: tokens of the
    // answer after which it ends. num_reported: tokens reported to the scheduler.
    int num_prompt, num_at_most, leaves_after, num_reported;
    int priority;
    int num_run{0};
    bool is_running{false}, was_running{false};  // after the last step; after the step before it
    int num_overtaking{0};  // later sequences admitted while this one waited only for room
    // Drafts of the sequence's last step that are not reported yet, and how many of them are right.
    int num_unsure{0}, num_unsure_right{0}, unsure_step{0};
    void push(TokenId token) {
      tokens.push_back(token);
      const uint64_t before = fingerprints.empty() ? 0 : fingerprints.back();
      fingerprints.push_back(mix64(before ^ static_cast<uint64_t>(token)));
    }
    int num_known() const { return static_cast<int>(tokens.size()); }
    bool is_complete() const { return num_known() == num_at_most; }
  };

  // Returns whether `a` is scheduled before `b`; ids are in the order of arrival.
  static bool comes_before(const std::pair<const RequestId, Book>& a,
                           const std::pair<const RequestId, Book>& b) {
    return std::pair(a.second.priority, a.first) < std::pair(b.second.priority, b.first);
  }
  // Returns whether the sequence may wait for another sequence to fill a page that both share.
  bool may_wait_for_a_prefix(const std::pair<const RequestId, Book>& waiting) const {
    return options_.prefix_cache && std::any_of(books_.begin(), books_.end(), [&](const auto& other) {
             const auto& [mine, theirs] = std::tie(waiting.second.tokens, other.second.tokens);
             const auto end = std::mismatch(mine.begin(), mine.end(), theirs.begin(), theirs.end()).first;
             return other.first != waiting.first && end - mine.begin() >= kPageTokens;
           });
  }
  // Checks that preempted sequences come after all running ones in the order, and that a sequence which waits
  // for room is overtaken a bounded number of times.
  void check_order() {
    using Entry = std::pair<const RequestId, Book>;
    const Entry* last = nullptr;
    std::vector<const Entry*> started;
    for (Entry& entry : books_) {
      Book& book = entry.second;
      book.was_running = std::exchange(book.is_running, scheduler_.is_running(entry.first));
      if (!book.is_running) continue;
      if (!book.was_running) started.push_back(&entry);
      if (!last || comes_before(*last, entry)) last = &entry;
    }
    for (Entry& entry : books_) {
      Book& book = entry.second;
      if (book.is_running || book.was_running) book.num_overtaking = 0;
      if (book.is_running) continue;
      if (book.was_running) {
        ASSERT_TRUE(options_.num_kv_caches > 1 || !last || comes_before(*last, entry))
            << "preempted out of order";
        continue;
      }
      const auto num_overtaking = std::count_if(
          started.begin(), started.end(), [&](const Entry* other) { return comes_before(entry, *other); });
      if (num_overtaking == 0 || may_wait_for_a_prefix(entry)) continue;
      book.num_overtaking += static_cast<int>(num_overtaking);
      num_overtaking_ += static_cast<int>(num_overtaking);
      ASSERT_LE(book.num_overtaking, Scheduler::kMaxOvertaking) << "overtaken too often";
    }
  }

  // Returns whether the sequence cannot run in a step planned now: the token after its drafts is unknown, or
  // its answer may already be complete.
  bool is_held(const Book& book) const {
    return book.num_unsure > 0 &&
           (!options_.launches_before_drafts || book.num_reported + 1 + book.num_unsure >= book.num_at_most);
  }
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  int num_here() const { return static_cast<int>(books_.size()); }

  int num_held_pages() const {
    int sum = 0;
    for (int cache = 0; cache < options_.num_kv_caches; ++cache)
      sum += scheduler_.num_held_pages(cache).total();
    return sum;
  }
  bool is_a_cache_full() const {
    for (int cache = 0; cache < options_.num_kv_caches; ++cache)
      if (options_.num_pages - scheduler_.num_held_pages(cache).total() < 2) return true;
    return false;
  }

  void add(RequestId request) {
    Book book{};
    if (below(4) != 0) {
      const std::vector<TokenId>& text = texts_[static_cast<size_t>(below(static_cast<int>(texts_.size())))];
      const int num_tokens =
          below(3) == 0 ? below(static_cast<int>(text.size())) : static_cast<int>(text.size());
      for (int i = 0; i < num_tokens; ++i) book.push(text[static_cast<size_t>(i)]);
    }
    for (int rest = 1 + (below(5) == 0 ? below(200) : below(40)); rest > 0; --rest) book.push(below(1000));
    book.num_prompt = book.num_reported = book.num_known();
    const int max_output = 1 + below(150);
    book.num_at_most = book.num_prompt + max_output;
    book.leaves_after = 1 + below(max_output);
    book.priority = below(num_priorities_);
    scheduler_.add(request, book.tokens, max_output, {.priority = book.priority});
    books_[request] = std::move(book);
  }
  void remove(RequestId request) {
    books_.erase(request);
    scheduler_.remove(request);
  }

  // Returns the position of the first draft of a slice.
  static int end_of_known(const Slice& slice, const Book& book) {
    return slice.first_position + book.num_unsure_right + slice.num_tokens - slice.num_drafts;
  }
  static PageId page_of(const PageTableView& table, int position) {
    return table.pages[static_cast<size_t>(position / kPageTokens - table.first_page)];
  }
  static int cache_of(PageId page, int num_pages) { return static_cast<int>(page) / num_pages; }
  int cache_of(const Slice& slice) const { return cache_of(slice.full.pages.front(), options_.num_pages); }
  static uint64_t& at(std::vector<Page>& store, const PageTableView& table, int position) {
    return store[static_cast<size_t>(page_of(table, position))][static_cast<size_t>(position % kPageTokens)];
  }

  void check_table(const Slice& slice, const Book& book) {
    const bool has_one_behind = options_.launches_before_drafts && slice.num_drafts > 0;
    const int last = std::min(slice.first_position + slice.num_unsure + slice.num_tokens - 1 + has_one_behind,
                              book.num_at_most - 2);
    const int first = slice.first_position + book.num_unsure_right;
    const int first_seen = std::max(0, slice.first_position - options_.window + 1);
    ASSERT_EQ(slice.full.first_page, 0);
    ASSERT_EQ(static_cast<int>(slice.full.pages.size()), last / kPageTokens + 1);
    ASSERT_EQ(slice.sliding.first_page, first_seen / kPageTokens);
    ASSERT_EQ(slice.sliding.first_page + static_cast<int>(slice.sliding.pages.size()),
              last / kPageTokens + 1);
    for (const PageId page : slice.full.pages)
      ASSERT_EQ(cache_of(page, options_.num_pages), cache_of(slice)) << "pages of two KV caches";
    for (const PageId page : slice.sliding.pages)
      ASSERT_EQ(cache_of(page, options_.num_pages), cache_of(slice)) << "pages of two KV caches";
    // Comparing the last position of each page is enough: its fingerprint depends on all positions before it.
    for (int p = first - 1; p >= 0; p = p / kPageTokens * kPageTokens - 1)
      ASSERT_EQ(at(pages_, slice.full, p), book.fingerprints[static_cast<size_t>(p)]) << "position " << p;
    for (int p = first - 1; p >= first_seen; p = p / kPageTokens * kPageTokens - 1)
      ASSERT_EQ(at(pages_, slice.sliding, p), book.fingerprints[static_cast<size_t>(p)]) << "position " << p;
  }
  // Counts the tables that hold each page, and checks that a written page is in one table only.
  void check_sharing(const std::vector<Slice>& slices) {
    std::vector<int> holders(pages_.size());
    for (const Slice& slice : slices)
      for (const PageTableView* table : {&slice.full, &slice.sliding})
        for (const PageId page : table->pages) ++holders[static_cast<size_t>(page)];
    for (const Slice& slice : slices)
      for (int p = slice.first_position; p < slice.first_position + slice.num_unsure + slice.num_tokens; ++p)
        for (const PageTableView* table : {&slice.full, &slice.sliding})
          ASSERT_EQ(holders[static_cast<size_t>(page_of(*table, p))], 1) << "written by one, held by another";
    if (std::ssize(slices) < scheduler_.num_running()) return;  // sequences without a slice hold pages too
    ASSERT_EQ(num_held_pages(), std::ssize(holders) - std::count(holders.begin(), holders.end(), 0))
        << "lost";
  }

  void step() {
    const uint64_t num_preempted_before = scheduler_.counts().num_preemptions;
    const PlanDrafts plan_drafts = [&](const DraftRoom& room) {
      for (DraftRoom::Quota& quota : room.quotas) quota.num_drafts = below(3) == 0 ? 0 : below(12);
    };
    const std::vector<Slice> slices = drafts_ ? scheduler_.next(plan_drafts) : scheduler_.next();
    if (slices.empty()) {
      for (const auto& [request, book] : books_)
        // If a cache is full, the last sequence in order may have no slice: it waits for the pages of a
        // sequence that is complete but whose last token is not known yet.
        ASSERT_TRUE(!scheduler_.is_running(request) || book.is_complete() || is_held(book) ||
                    is_a_cache_full())
            << "a sequence has no row";
      ASSERT_EQ(scheduler_.num_running() == 0, books_.empty());
      report();
      return;
    }
    std::map<RequestId, Slice> parts;
    int num_rows = 0, num_drafts = 0;
    for (const Slice& slice : slices) {
      Book& book = books_.at(slice.request);
      ASSERT_TRUE(parts.emplace(slice.request, slice).second) << "twice in a step";
      ASSERT_GT(slice.num_tokens, 0);
      if (book.num_run > 0 || !options_.prefix_cache) {
        ASSERT_EQ(slice.first_position + book.num_unsure_right, book.num_run)
            << "a position is skipped or run twice";
        // A sequence's first slice, and its first slice after a preemption, begin after whole cached pages.
      } else {
        ASSERT_EQ(slice.first_position % kPageTokens, 0);
        num_cached_ += slice.first_position;
        num_begun_ += book.num_known();
      }
      ASSERT_FALSE(is_held(book)) << "drafts behind drafts";
      ASSERT_EQ(slice.num_unsure, book.num_unsure);
      ASSERT_TRUE(slice.num_unsure == 0 || slice.follows);
      const int end = end_of_known(slice, book);
      ASSERT_LE(end, book.num_known());
      ASSERT_EQ(slice.gives_token, end == book.num_known());
      ASSERT_TRUE(slice.num_drafts == 0 ||
                  (slice.gives_token && (!slice.follows || options_.launches_before_drafts)));
      num_drafts_after_drafts_ += slice.num_unsure > 0 ? slice.num_drafts : 0;
      ASSERT_LT(slice.first_position + slice.num_unsure + slice.num_tokens, book.num_at_most)
          << "a draft behind the answer's last token but one";
      ASSERT_EQ(slice.follows, slice.first_position == book.num_reported);
      ASSERT_FALSE(book.is_complete()) << "the last token of an answer is never run";
      check_table(slice, book);
      if (testing::Test::HasFatalFailure()) return;
      num_rows += slice.num_tokens;
      num_drafts += slice.num_drafts;
    }
    ASSERT_LE(num_rows, options_.max_batch_tokens);
    check_sharing(slices);
    if (testing::Test::HasFatalFailure()) return;

    ASSERT_EQ(scheduler_.num_running() + scheduler_.num_waiting(), num_here());
    for (const auto& [request, slice] : parts) ++num_slices_of_.at(static_cast<size_t>(cache_of(slice)));
    check_order();
    if (testing::Test::HasFatalFailure()) return;
    const auto leader = std::min_element(books_.begin(), books_.end(), [&](const auto& a, const auto& b) {
      const bool a_runs = a.second.is_running, b_runs = b.second.is_running;
      return a_runs == b_runs ? comes_before(a, b) : a_runs;
    });
    ASSERT_TRUE(parts.contains(leader->first) || leader->second.is_complete() || is_held(leader->second))
        << "the first does not go on";
    const bool was_short = scheduler_.counts().num_preemptions > num_preempted_before || is_a_cache_full();
    for (auto& [request, book] : books_) {
      const auto part = parts.find(request);
      if (!scheduler_.is_running(request)) {
        ASSERT_TRUE(part == parts.end()) << "has a slice and does not run";
        num_put_aside_ += book.num_run > 0;
        book.num_run = book.num_unsure = book.num_unsure_right = 0;
        continue;
      }
      if (was_short || book.is_complete() || is_held(book)) continue;
      const bool decodes = book.num_run > 0 && book.num_run == book.num_known() - 1;
      ASSERT_TRUE(!decodes || part != parts.end()) << "a sequence that decodes was left out";
      const bool is_done = part != parts.end() && part->second.gives_token;
      ASSERT_TRUE(is_done || num_rows - num_drafts == options_.max_batch_tokens)
          << "rows were left free while a prompt waited";
    }

    if (below(2000) == 0) {  // the step fails and has written nothing
      for (const RequestId request : scheduler_.remove_running()) books_.erase(request);
      report();
      return;
    }
    ++num_planned_;
    std::vector<Sampled> sampled;
    for (const Slice& slice : slices) {
      Book& book = books_.at(slice.request);
      const int first = slice.first_position + book.num_unsure_right, end = end_of_known(slice, book);
      int num_right = slice.num_drafts > 0 ? below(slice.num_drafts + 1) : 0;
      book.num_run = end;
      if (slice.gives_token) {
        const int num_left = book.num_prompt + book.leaves_after - book.num_known();
        const int num_tokens = std::max(1, std::min(1 + num_right, num_left));
        num_right = std::min(num_right, num_tokens);
        for (int n = 0; n < num_tokens; ++n)
          book.push(static_cast<TokenId>(mix64(book.fingerprints.back()) % 1000));
        sampled.push_back({slice.request, num_tokens, slice.num_drafts, num_right, num_planned_});
        book.num_run = std::min(end + num_right, book.num_known() - 1);
        book.num_unsure = slice.num_drafts;
        book.num_unsure_right = book.num_run - end;
        book.unsure_step = num_planned_;
        num_right_ += num_right;
        num_wrong_ += slice.num_drafts - num_right;
      }
      for (int p = first; p < end + slice.num_drafts; ++p)
        at(pages_, slice.full, p) = at(pages_, slice.sliding, p) =
            p < end + num_right ? book.fingerprints[static_cast<size_t>(p)] : random_();
    }
    if (runs_ahead_) report();
    unreported_ = std::move(sampled);
    if (!runs_ahead_) report();
  }

  // Reports the tokens of the previous step to the scheduler, and removes sequences that end with them.
  void report() {
    for (const auto& [request, num_tokens, num_drafts, num_right, planned] : std::exchange(unreported_, {})) {
      const auto found = books_.find(request);
      if (found == books_.end()) continue;  // the sequence was removed meanwhile
      Book& book = found->second;
      for (int n = 0; n < num_tokens; ++n) {
        const TokenId token = book.tokens[static_cast<size_t>(book.num_reported++)];
        n == 0 ? scheduler_.push(request, token) : scheduler_.append(request, token);
      }
      if (num_drafts > 0) scheduler_.accept(request, num_right);
      if (book.unsure_step == planned) book.num_unsure = book.num_unsure_right = 0;
      if (book.num_reported >= book.num_prompt + book.leaves_after) remove(request);
    }
  }

  SchedulerOptions options_;
  bool runs_ahead_, drafts_;
  int num_priorities_;
  Scheduler scheduler_;
  struct Sampled {
    RequestId request;
    int num_tokens, num_drafts, num_right, planned;
  };
  std::vector<Sampled> unreported_;  // slices whose tokens are not reported to the scheduler yet
  int num_right_{0}, num_wrong_{0}, num_drafts_after_drafts_{0};
  int num_planned_{0};  // number of planned steps
  int num_overtaking_{0};
  std::mt19937 random_;
  std::array<std::vector<TokenId>, 12> texts_;
  std::vector<Page> pages_;
  std::map<RequestId, Book> books_;  // by id, that is, in the order of arrival
  // Sums over the first slices of sequences: tokens found in the prefix cache, and all known tokens.
  int64_t num_cached_{0}, num_begun_{0};
  uint64_t num_put_aside_{0};
  std::array<int64_t, 3> num_slices_of_{};  // number of slices of sequences in each KV cache
};

// 125,000 arrivals in total; fewer under sanitizers, which are ten times slower and find faults within the
// first thousands.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kNumArrivals{1500};
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr int kNumArrivals{1500};
#else
constexpr int kNumArrivals{6250};
#endif
#else
constexpr int kNumArrivals{6250};
#endif

// `num_kv_caches`: the number of ranks if each rank has sequences and a KV cache of its own, otherwise 1.
void simulate(int num_kv_caches) {
  for (const unsigned seed : {1u, 4u, 5u, 6u, 8u}) {
    const bool runs_ahead = seed % 2 == 0, drafts = seed > 4, launches_before_drafts = seed > 6;
    for (const int window : {16, 128}) {
      for (const bool prefix_cache : {true, false}) {
        Simulation({.max_batch_tokens = 40 * num_kv_caches,
                    .max_sequences = 12 * num_kv_caches,
                    .num_kv_caches = num_kv_caches,
                    .num_pages = num_kv_caches == 1 ? 24 : 22,
                    .window = window,
                    .prefix_cache = prefix_cache,
                    .launches_before_drafts = launches_before_drafts},
                   runs_ahead, drafts, seed % 3 == 0 ? 1 : 3, seed)
            .run(kNumArrivals / num_kv_caches);
        ASSERT_FALSE(testing::Test::HasFatalFailure())
            << "one step ahead: " << runs_ahead << ", drafts: " << drafts
            << ", behind drafts: " << launches_before_drafts << ", window " << window << ", cache "
            << prefix_cache;
      }
    }
  }
}

TEST(Scheduler, HoldsItsPromisesOverAHundredThousandRandomArrivals) { simulate(1); }

TEST(Scheduler, HoldsItsPromisesWhereEverySequenceHasItsPagesInOneOfSeveralKvCaches) {
  for (const int num_kv_caches : {2, 3}) simulate(num_kv_caches);
}

}  // namespace
}  // namespace nibble
