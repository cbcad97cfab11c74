// Trains a network and one without each row, proves what they may give away, and asks for a label.
#include <lucid/lucid.h>

#include <cstdio>

lucid::Result<int> PrivateLabel() {
  LUCID_TRY(lucid::WriteSynthetic2d("points", {.rows = 100}));
  LUCID_ASSIGN(const auto data, lucid::LoadDataset("points"));
  LUCID_ASSIGN(const auto net, lucid::Architecture::FromName("2x10", data.features(), 2));
  LUCID_ASSIGN(const auto ensemble, lucid::Train(data, net, {.train = {.batch = 10}}, "run"));
  LUCID_TRY(lucid::Certify(ensemble, "run"));
  LUCID_ASSIGN(const auto guard,
               lucid::Guard::Open("run", {.epsilon = 1}, lucid::GuardKey::Random()));
  return guard.LabelRecord({"0.2", "0.9"});
}

int main() {
  const lucid::Result<int> label = PrivateLabel();
  if (!label.ok()) return std::fprintf(stderr, "%s\n", label.error().message.c_str()), 1;
  std::printf("class %d\n", *label);
}
