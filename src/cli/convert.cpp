#include "cli/convert.h"

#include <memory>

#include "cli/load.h"
#include "core/error.h"
#include "core/progress.h"
#include "model/synthetic.h"

namespace nibble::cli {
namespace {

constexpr const char* kFooter{R"(
Writes random weights of a configuration as a Hugging Face checkpoint folder, so that loading and decoding at full size
can be measured without having the model. What such a model says is noise.

Examples:
  nibble convert synthetic:gpt-oss-20b /data/synthetic-20b
  nibble convert synthetic:my-config.json out)"};

struct Options {
  std::string model, folder;
};

int convert(const Options& options, const Settings& settings) {
  const ModelSource source = find_model(options.model, settings);
  if (!source.synthetic)
    throw InputError(
        "'{}' is a checkpoint already; accepted is synthetic:gpt-oss-20b, synthetic:gpt-oss-120b or "
        "synthetic:PATH of a config.json",
        options.model);
  write_synthetic(*source.synthetic, options.folder, /*seed=*/0, show_progress("writing " + options.folder));
  return kDone;
}

}  // namespace

Action define_convert(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<Options>();
  command
      .add_option("MODEL", options->model,
                  "synthetic:gpt-oss-20b, synthetic:gpt-oss-120b or synthetic:CONFIG.JSON")
      ->required();
  command.add_option("DIR", options->folder, "folder to write; must not exist or be empty")->required();
  add_settings(command, settings, {SettingGroup::kPlaces});
  command.footer(kFooter);
  return [options, &settings] { return convert(*options, settings); };
}

}  // namespace nibble::cli
