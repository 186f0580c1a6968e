// nibble convert: writes a model as a GGUF file or a checkpoint folder.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "core/console/output.h"
#include "core/console/progress.h"
#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/text/json.h"
#include "formats/gguf.h"
#include "harmony/control_tokens.h"
#include "model/checkpoint/gguf_tokenizer.h"
#include "model/checkpoint/synthetic.h"
#include "model/checkpoint/write_checkpoint.h"
#include "model/checkpoint/write_gguf.h"
#include "setup/model/model_source.h"
#include "text/tokenizer.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConvertFooter{R"(
If OUT ends in .gguf, it becomes one GGUF file, made from a checkpoint, another GGUF file or synthetic weights. Experts stay
MXFP4, with the same values in GGUF's order, and become it from other types where that is exact, or with --experts mxfp4; embedding, attention and head get the type of --dense, all other tensors F32.
Any other OUT is a folder and becomes a Hugging Face checkpoint, made from a GGUF file or synthetic weights; tensors are
BF16 if that is exact. A file gets its name only when it is complete; in a folder the index and the configuration are
written last. After ctrl-C (exit code 130) or on a full disk (3) nothing is left behind.

Synthetic weights are random. With them, loading and decoding at full size can be measured in nibble and other engines
without the real model. The output of such a model is noise.

Examples:
  nibble convert openai/gpt-oss-20b gpt-oss-20b.gguf --dense q8_0
  nibble convert gpt-oss-20b.gguf gpt-oss-20b
  nibble convert synthetic:gpt-oss-20b /data/synthetic-20b.gguf --dense q8_0
  nibble convert synthetic:my-config.json out)"};

struct ConvertOptions {
  std::string model, out, dense{"bf16"};
};

// Small files of a checkpoint. generation_config.json is the only source of stop tokens for transformers and
// vLLM.
constexpr const char* kVocabulary{"tokenizer.json"};
constexpr const char* kTemplate{"chat_template.jinja"};
constexpr const char* kGeneration{"generation_config.json"};
constexpr const char* kOthers[]{kGeneration, "tokenizer_config.json", "special_tokens_map.json"};

// Makes a generation_config.json like transformers'. Empty if the vocabulary lacks harmony's stop tokens.
std::string generation_config(const Gguf& gguf, const std::string& vocabulary) {
  const Tokenizer tokenizer = Tokenizer::from_json(vocabulary, gguf.files[0].string());
  if (!tokenizer.special("<|return|>") || !tokenizer.special("<|call|>")) return {};
  Json config;
  if (const auto begin = tokenizer.special("<|startoftext|>")) config["bos_token_id"] = *begin;
  config["do_sample"] = true;  // sample from the model's own distribution, as OpenAI recommends
  config["eos_token_id"] = harmony::stop_tokens(tokenizer);
  if (const auto padding = tokenizer.special("<|endoftext|>")) config["pad_token_id"] = *padding;
  return config.dump(2) + "\n";
}

// Returns the small files in the checkpoint's folder; none for synthetic weights.
std::vector<TextFile> small_files_beside(const ModelSource& source) {
  std::vector<TextFile> files;
  const auto add = [&](const char* name) {
    const fs::path file = source.folder() / name;
    std::error_code no_such_file;
    if (fs::is_regular_file(file, no_such_file)) files.push_back({name, read_text_file(file)});
  };
  if (source.synthetic) return files;
  for (const char* name : {kVocabulary, kTemplate}) add(name);
  for (const char* name : kOthers) add(name);
  return files;
}

// Returns the small files that a GGUF file contains. A file written by nibble contains all of them. Any other
// file has only the vocabulary and the template, so a generation_config.json with harmony's stop tokens is
// added.
std::vector<TextFile> small_files_in(const Gguf& gguf) {
  std::vector<TextFile> files;
  const auto add_value = [&](const char* name, const std::string& key) {
    const GgufValue* value = gguf.value(key);
    if (const auto text = value ? value->text() : std::nullopt) files.push_back({name, std::string(*text)});
  };
  if (has_tokenizer(gguf)) files.push_back({kVocabulary, tokenizer_json(gguf)});
  add_value(kTemplate, "tokenizer.chat_template");
  for (const char* name : kOthers) add_value(name, gguf_key_of_file(name));
  const bool has_generation =
      std::ranges::any_of(files, [](const TextFile& file) { return file.name == kGeneration; });
  if (has_tokenizer(gguf) && !has_generation)
    if (std::string made = generation_config(gguf, files.front().text); !made.empty())
      files.push_back({kGeneration, std::move(made)});
  return files;
}

GgmlType dense_type(const std::string& name) {
  return name == "q8_0" ? GgmlType::kQ8_0 : name == "mxfp4" ? GgmlType::kMxfp4 : GgmlType::kBf16;
}

// Last SIGINT or SIGTERM that HeldSignals received; 0: none. Global, because a handler can only reach
// globals.
std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) { received_signal = signal; }

// Defers SIGINT and SIGTERM while this object exists, so that unfinished files can be removed first. Blocking
// the signals would not do: threads that were started before, such as those of an opened model, would still
// take them. A signal that take() has not consumed has its usual effect in the destructor.
class HeldSignals {
 public:
  HeldSignals() {
    struct sigaction action {};
    action.sa_handler = &on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, &interrupt_);
    ::sigaction(SIGTERM, &action, &terminate_);
  }
  ~HeldSignals() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
    if (const int signal = take()) ::raise(signal);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // Returns the number of the signal that arrived since the last call; 0 if there was none.
  int take() { return received_signal.exchange(0); }

 private:
  struct sigaction interrupt_, terminate_;
};

// Thrown from the progress callback after ctrl-C or SIGTERM, so that destructors remove unfinished files.
struct Interrupted {
  int signal;
};

int convert(const ConvertOptions& options, const Settings& settings) {
  const ModelSource model = find_model(options.model, resolve_places(settings));
  const bool is_from_gguf = is_gguf(model.path), is_to_gguf = fs::path(options.out).extension() == ".gguf";
  if (!is_to_gguf && !model.synthetic && !is_from_gguf)
    throw InputError(
        "'{}' is already a checkpoint folder; for an output folder expected a GGUF file, "
        "synthetic:gpt-oss-20b, synthetic:gpt-oss-120b or synthetic:PATH of a config.json; for a GGUF file "
        "give a name that ends in .gguf",
        options.model);
  if (!is_to_gguf && dense_type(options.dense) != GgmlType::kBf16)
    throw InputError("--dense {} is only for GGUF files, and '{}' does not end in .gguf", options.dense,
                     options.out);

  if (settings.experts && *settings.experts != "mxfp4")
    throw InputError("--experts {}: nibble convert writes experts in MXFP4", *settings.experts);

  const TensorSource source =
      model.synthetic
          ? synthetic_source(*model.synthetic, model.name)
          : open_source(model.path, settings.experts ? ExpertRounding::kToMxfp4 : ExpertRounding::kNone);
  std::vector<TextFile> texts =
      is_from_gguf ? small_files_in(open_gguf(model.path)) : small_files_beside(model);
  HeldSignals signals;
  try {
    const ReportProgress report = [&, show = show_progress("writing " + options.out)](size_t done,
                                                                                      size_t total) {
      if (const int signal = signals.take()) throw Interrupted{signal};
      show(done, total);
    };
    if (is_to_gguf) {
      ThreadPool pool(settings.threads.value_or(0));
      write_gguf(source, options.out, {dense_type(options.dense), std::move(texts)}, pool, report);
    } else {
      write_checkpoint(source, options.out, texts, report);
    }
  } catch (const Interrupted& interrupted) {
    print_to(stderr, "nibble: interrupted: removed the unfinished {}\n", options.out);
    return kSignalBase + interrupted.signal;
  }
  return kDone;
}

}  // namespace

Action define_convert(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<ConvertOptions>();
  command
      .add_option(
          "MODEL", options->model,
          "a checkpoint, a GGUF file, synthetic:gpt-oss-20b, synthetic:gpt-oss-120b or synthetic:CONFIG.JSON")
      ->required();
  command
      .add_option("OUT", options->out, "file to write (NAME.gguf) or folder; a folder must be new or empty")
      ->required();
  command.add_option("--dense", options->dense, "dense matrices in a GGUF file: bf16, q8_0 or mxfp4 [bf16]")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"bf16", "q8_0", "mxfp4"}));
  add_settings(command, settings, {SettingGroup::kMachine, SettingGroup::kPlaces});
  command.footer(kConvertFooter);
  return [options, &settings] { return convert(*options, settings); };
}

}  // namespace nibble::cli
