# Trains on people, proves what labels may give away about any one of them, and asks for labels.
import lucid
import numpy as np

rng = np.random.default_rng(1)
x = rng.random((400, 3))  # or a data frame; words are fine
y = np.where(x[:, 0] + x[:, 1] > 1, "ill", "well")
people = np.arange(400) // 2  # whose row each is

model = lucid.LucidClassifier(promise="labels", run="run", random_state=1)
model.fit(x, y, groups=people)
print(f"promise: {model.promise_}, bounds: {model.fit_['bounds']}")
for row in model.fit_["guards"]:
    if not row["epsilon"]:
        right, noised = row["accuracy"], row["noised_fraction"]
        print(f"{row['guard']:8}{right:6.1%} of test rows right, {noised:5.1%} noised")
print(model.predict([[0.9, 0.8, 0.1], [0.1, 0.2, 0.9]]))
print("next:", model.fit_["serve"])
