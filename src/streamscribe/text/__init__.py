"""What happens to text after a model: script, hot words, inverse text normalisation, subtitles."""
