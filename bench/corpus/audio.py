"""Networks on sound, after torchaudio's, as plain modules."""
import torch
from torch import nn


class Wav2Letter(nn.Sequential):
    """Collobert et al. 2016, on features."""

    def __init__(self, features=80, labels=40, width=250):
        layers = [nn.Conv1d(features, width, 48, 2, 23), nn.ReLU()]
        for _ in range(7):
            layers += [nn.Conv1d(width, width, 7, 1, 3), nn.ReLU()]
        layers += [nn.Conv1d(width, 500, 32, 1, 16), nn.ReLU(), nn.Conv1d(500, 500, 1), nn.ReLU(),
                   nn.Conv1d(500, labels, 1), nn.LogSoftmax(1)]
        super().__init__(*layers)


class DeepSpeech(nn.Module):
    """Hannun et al. 2014: clipped products around one recurrent layer."""

    def __init__(self, features=80, width=256, labels=40):
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(n, width) for n in (features, width, width))
        self.recurrent = nn.RNN(width, width, nonlinearity="relu", bidirectional=True)
        self.fourth, self.last = nn.Linear(width, width), nn.Linear(width, labels)

    def forward(self, x):
        for layer in self.first:
            x = nn.functional.hardtanh(layer(x), 0, 20)
        x, _ = self.recurrent(x.transpose(0, 1))
        x = x[:, :, : x.shape[2] // 2] + x[:, :, x.shape[2] // 2:]
        return self.last(nn.functional.hardtanh(self.fourth(x), 0, 20)).log_softmax(2).transpose(0, 1)


class Separator(nn.Module):
    """Like Conv-TasNet (Luo and Mesgarani 2019): masks from dilated blocks over a learned filter bank."""

    def __init__(self, filters=128, width=64, inner=128, speakers=2):
        super().__init__()
        self.speakers = speakers
        self.encode = nn.Conv1d(1, filters, 16, 8, bias=False)
        self.decode = nn.ConvTranspose1d(filters, 1, 16, 8, bias=False)
        self.norm, self.narrow = nn.GroupNorm(1, filters), nn.Conv1d(filters, width, 1)
        self.blocks = nn.ModuleList(nn.Sequential(
            nn.Conv1d(width, inner, 1), nn.PReLU(), nn.GroupNorm(1, inner),
            nn.Conv1d(inner, inner, 3, padding=2 ** i, dilation=2 ** i, groups=inner), nn.PReLU(),
            nn.GroupNorm(1, inner), nn.Conv1d(inner, width, 1)) for i in range(5))
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(width, filters * speakers, 1), nn.Sigmoid())

    def forward(self, wave):
        coded = self.encode(wave)
        x = self.narrow(self.norm(coded))
        for block in self.blocks:
            x = x + block(x)
        masks = self.mask(x).unflatten(1, (self.speakers, -1))
        parts = (masks * coded.unsqueeze(1)).flatten(0, 1)
        return self.decode(parts).view(wave.shape[0], self.speakers, -1)


class Conformer(nn.Module):
    """A block of Gulati et al. 2020."""

    def __init__(self, width=144, heads=4, kernel=31):
        super().__init__()

        def feed():
            return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(),
                                 nn.Linear(4 * width, width))

        self.before, self.after = feed(), feed()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.convolve = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1), nn.GLU(1),
            nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width), nn.BatchNorm1d(width),
            nn.SiLU(), nn.Conv1d(width, width, 1))

    def forward(self, x):
        x = x + 0.5 * self.before(x)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.convolve(self.norm2(x).transpose(1, 2)).transpose(1, 2)
        return self.last(x + 0.5 * self.after(x))


class ResBlock(nn.Sequential):
    def __init__(self, width):
        super().__init__(nn.Conv1d(width, width, 3, padding=1), nn.BatchNorm1d(width), nn.ReLU(),
                         nn.Conv1d(width, width, 3, padding=1), nn.BatchNorm1d(width))

    def forward(self, x):
        return x + super().forward(x)


class WaveRnn(nn.Module):
    """Kalchbrenner et al. 2018 as torchaudio has it, at the rate of the frames."""

    def __init__(self, mel=80, width=128, classes=256):
        super().__init__()
        self.upsample = nn.Sequential(nn.Conv1d(mel, width, 5, padding=2), *[ResBlock(width) for _ in range(3)],
                                      nn.Upsample(scale_factor=4), nn.Conv1d(width, width, 5, padding=2))
        self.first, self.second = (nn.GRU(width, width, batch_first=True) for _ in range(2))
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, spectrum):
        x = self.upsample(spectrum).transpose(1, 2)
        x = x + self.first(x)[0]
        return self.head(x + self.second(x)[0])


class Vocoder(nn.Module):
    """Like HiFi-GAN's generator (Kong et al. 2020)."""

    def __init__(self, mel=80, width=128):
        super().__init__()
        self.first = nn.Conv1d(mel, width, 7, padding=3)
        self.ups = nn.ModuleList(nn.ConvTranspose1d(width >> i, width >> (i + 1), 2 * s, s, s // 2)
                                 for i, s in enumerate((8, 4, 2)))
        self.blocks = nn.ModuleList(nn.ModuleList(
            nn.Conv1d(width >> (i + 1), width >> (i + 1), 3, padding=d, dilation=d) for d in (1, 3, 5))
            for i in range(3))
        self.last = nn.Conv1d(width >> 3, 1, 7, padding=3)

    def forward(self, x):
        x = self.first(x)
        for up, block in zip(self.ups, self.blocks):
            x = up(nn.functional.leaky_relu(x, 0.1))
            for layer in block:
                x = x + layer(nn.functional.leaky_relu(x, 0.1))
        return torch.tanh(self.last(nn.functional.leaky_relu(x)))


def networks():
    """Name -> a function that gives the module and its inputs."""
    return {
        "wav2letter": lambda: (Wav2Letter(), (torch.randn(1, 80, 200),)),
        "deepspeech": lambda: (DeepSpeech(), (torch.randn(1, 100, 80),)),
        "conv_tasnet": lambda: (Separator(), (torch.randn(1, 1, 8000),)),
        "conformer": lambda: (nn.Sequential(*[Conformer() for _ in range(4)]), (torch.randn(1, 100, 144),)),
        "wavernn": lambda: (WaveRnn(), (torch.randn(1, 80, 50),)),
        "hifigan": lambda: (Vocoder(), (torch.randn(1, 80, 64),)),
    }
