#include "lucid/nn/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "support/scratch_folder.h"

namespace lucid {
namespace {

using testing::HasSubstr;

TEST(Architecture, FullyConnectedNamesGiveTheirShapes) {
  const Architecture net = Architecture::FromName("2x50", 21, 3).value();
  ASSERT_EQ(net.layers().size(), 3u);
  EXPECT_EQ(net.inputs(), 21);
  EXPECT_EQ(net.classes(), 3);
  EXPECT_EQ(net.parameters(), 21 * 50 + 50 + 50 * 50 + 50 + 50 * 3 + 3);
  EXPECT_TRUE(net.layers()[1].relu);
  EXPECT_FALSE(net.layers()[2].relu);
  EXPECT_EQ(Architecture::FromName("0x1", 4, 2).value().parameters(), 4 * 2 + 2);
}

// The published CNN on Adult: two convolutions of 6 filters of width 3, then 2, then the classes.
TEST(Architecture, ConvIsThePublishedOne) {
  const Architecture net = Architecture::FromName("conv", 21, 2).value();
  ASSERT_EQ(net.layers().size(), 4u);
  EXPECT_EQ(net.layers()[0].positions, 19);
  EXPECT_EQ(net.layers()[1].positions, 17);
  EXPECT_EQ(net.layers()[1].taps, 18);
  EXPECT_EQ(net.layers()[2].inputs, 6 * 17);
  EXPECT_EQ(net.parameters(), (6 * 3 + 6) + (6 * 18 + 6) + (102 * 2 + 2) + (2 * 2 + 2));
}

TEST(Architecture, TapOffsetsWalkChannelsThenPlaces) {
  const Layer layer = Architecture::FromName("conv", 21, 2).value().layers()[1];
  EXPECT_EQ(layer.TapOffset(0), 0);
  EXPECT_EQ(layer.TapOffset(2), 2);
  EXPECT_EQ(layer.TapOffset(3), 19) << "the second channel starts after the 19 places of the first";
}

TEST(Architecture, CanonicalTextRoundTrips) {
  for (const char* name : {"2x50", "4x30", "conv", "0x1", "1x1"}) {
    const Architecture net = Architecture::FromName(name, 21, 2).value();
    const auto again = Architecture::FromCanonical(net.Canonical());
    ASSERT_TRUE(again.ok()) << net.Canonical();
    EXPECT_EQ(again->Canonical(), net.Canonical());
    EXPECT_EQ(again->parameters(), net.parameters());
  }
  for (const char* bad : {"", "21", "21 > dense > 2", "21 > dense 5 > 2 ", "21 > dense 05 > 2",
                          "21 > conv 6 width 22 stride 1 > 2", "0 > dense 5 > 2", "-1 > 2"}) {
    EXPECT_FALSE(Architecture::FromCanonical(bad).ok()) << bad;
  }
}

TEST(Architecture, BadNamesSayWhatIsPossible) {
  for (const char* bad :
       {"", "x", "2x", "x50", "2x50x", "two", "2x-5", "99999x5", "2x0", "convx"}) {
    EXPECT_FALSE(Architecture::FromName(bad, 5, 2).ok()) << bad;
  }
  EXPECT_THAT(Architecture::FromName("foo", 5, 2).error().message, HasSubstr("2x50"));
  EXPECT_THAT(Architecture::FromName("conv", 4, 2).error().message, HasSubstr("width"))
      << "four inputs leave two places after the first convolution";
}

TEST(Architecture, TomlFileDescribesAnyNetwork) {
  const std::string path = ScratchFolder() + "/architecture.toml";
  ASSERT_TRUE(WriteFileAtomically(path,
                                  "[[layer]]\ntype = \"conv\"\nfilters = 4\nwidth = 3\nstride = 2\n"
                                  "[[layer]]\ntype = \"dense\"\nunits = 7\n")
                  .ok());
  const auto net = Architecture::FromName(path, 9, 3);
  ASSERT_TRUE(net.ok()) << net.error().message;
  EXPECT_EQ(net->Canonical(), "9 > conv 4 width 3 stride 2 > dense 7 > 3");
  EXPECT_EQ(net->layers()[0].positions, 4);
}

TEST(Architecture, BadTomlSaysWhereAndWhat) {
  const auto message = [](std::string_view text) {
    const auto parsed = Architecture::ParseToml(text, "a.toml");
    return parsed.ok() ? std::string("accepted") : parsed.error().message;
  };
  EXPECT_THAT(message("[[layer]\n"), HasSubstr("a.toml:1"));
  EXPECT_THAT(message(""), HasSubstr("no [[layer]]"));
  EXPECT_THAT(message("[[layer]]\ntype = \"lstm\""), HasSubstr("layer 1"));
  EXPECT_THAT(message("[[layer]]\ntype = \"dense\""), HasSubstr("units"));
  EXPECT_THAT(message("[[layer]]\ntype = \"dense\"\nunits = 2.5"), HasSubstr("whole number"));
  EXPECT_THAT(message("[[layer]]\ntype = \"dense\"\nwidth = 2"), HasSubstr("unknown key 'width'"));
  EXPECT_THAT(message("depth = 3"), HasSubstr("unknown key 'depth'"));
}

TEST(Architecture, ConvolutionAfterDenseIsRefused) {
  const HiddenLayer dense{.units = 5};
  const HiddenLayer conv{.kind = HiddenLayer::Kind::kConv, .units = 2, .width = 1, .stride = 1};
  EXPECT_THAT(Architecture::Build(std::vector{dense, conv}, 5, 2).error().message,
              HasSubstr("after a dense layer"));
}

}  // namespace
}  // namespace lucid
