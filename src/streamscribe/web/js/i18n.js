// Words of the page in English and Chinese.

const words = {
  en: {
    skip: 'Skip to the transcript', connecting: 'connecting', ready: 'ready', warming: 'warming up', down: 'server not reachable',
    reconnecting: 'connection lost, resuming', controls: 'Controls', speak: 'Speak', stop: 'Stop', finishing: 'Finishing…',
    level: 'Microphone level', language: 'Spoken language', auto: 'Recognise it', hotwords: 'Hot words, separated by commas',
    key: 'API key', drop: 'Drop an audio file here, or press to choose one', cancel: 'Cancel', transcript: 'Transcript', copy: 'Copy',
    copied: 'Copied', clear: 'Clear', history: 'Earlier, in this browser', forget: 'Forget all', metrics: 'Metrics', health: 'Health',
    empty: 'What is said appears here: grey while it may still change, black when it is final.',
    historyEmpty: 'Nothing yet. Results are kept in this browser only.',
    uploading: 'Uploading', recognising: 'Recognising', microphone: 'Microphone',
    micDenied: 'The microphone was refused. Allow it in the address bar of your browser, then press Speak again.',
    micMissing: 'No microphone was found. Plug one in, or drop a file below.',
    micInsecure: 'Browsers give the microphone only to pages from localhost or over https. Open this page there, or drop a file below.',
    keyNeeded: 'This server needs an API key.', tooFast: 'The server asks for less: it reads on in a moment.', nothing: 'No speech was heard.',
    lost: 'The connection was lost and could not be resumed.',
  },
  zh: {
    skip: '跳到文字', connecting: '连接中', ready: '就绪', warming: '预热中', down: '无法连接服务器',
    reconnecting: '连接中断，正在恢复', controls: '控制', speak: '开始说话', stop: '停止', finishing: '正在收尾…',
    level: '麦克风音量', language: '语言', auto: '自动识别', hotwords: '热词，用逗号分隔',
    key: 'API 密钥', drop: '把音频文件拖到这里，或点击选择', cancel: '取消', transcript: '识别结果', copy: '复制',
    copied: '已复制', clear: '清空', history: '本浏览器的历史', forget: '全部删除', metrics: '指标', health: '健康状态',
    empty: '说的话会显示在这里：灰色可能还会变，黑色为最终结果。',
    historyEmpty: '暂无。结果只保存在本浏览器中。',
    uploading: '上传中', recognising: '识别中', microphone: '麦克风',
    micDenied: '麦克风被拒绝。请在浏览器地址栏允许使用，然后再按“开始说话”。',
    micMissing: '没有找到麦克风。请插入麦克风，或在下方拖入文件。',
    micInsecure: '浏览器只允许 localhost 或 https 页面使用麦克风。请换用这样的地址，或在下方拖入文件。',
    keyNeeded: '此服务器需要 API 密钥。', tooFast: '发送过快，服务器稍后继续读取。', nothing: '没有听到语音。',
    lost: '连接中断，无法恢复。',
  },
};

let locale = localStorage.getItem('locale') ?? (navigator.language.startsWith('zh') ? 'zh' : 'en');

export const t = (key) => words[locale][key] ?? key;

export function translatePage() {
  document.documentElement.lang = locale === 'zh' ? 'zh-CN' : 'en';
  for (const element of document.querySelectorAll('[data-i18n]')) element.textContent = t(element.dataset.i18n);
  for (const element of document.querySelectorAll('[data-i18n-label]')) element.setAttribute('aria-label', t(element.dataset.i18nLabel));
  document.getElementById('locale').textContent = locale === 'zh' ? 'English' : '中文';
}

export function switchLocale() {
  locale = locale === 'zh' ? 'en' : 'zh';
  localStorage.setItem('locale', locale);
  translatePage();
}
