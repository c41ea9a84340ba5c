// Words of the page in English and Chinese.

import { keep, recall } from './storage.js';

export const words = {
  en: {
    skip: 'Skip to the transcript',
    connecting: 'connecting', ready: 'ready', warming: 'warming up', down: 'server not reachable',
    reconnecting: 'connection lost, resuming', behind: 'catching up', leaving: 'server is restarting',
    controls: 'Speak or choose a file', speak: 'Speak', stop: 'Stop', finishing: 'Finishing…', level: 'Microphone level',
    options: 'Options', language: 'Spoken language', auto: 'Detect', hotwords: 'Hot words, separated by commas', key: 'API key',
    drop: 'Drop an audio file, or choose one', uploading: 'Uploading', recognising: 'Recognising', cancel: 'Cancel',
    transcript: 'Transcript', copy: 'Copy', copied: 'Copied', downloadSrt: 'Download as SRT subtitles',
    downloadVtt: 'Download as VTT subtitles', clear: 'Clear',
    empty: 'What is said appears here. Grey text may still change; the rest is final.',
    history: 'Earlier', historyEmpty: 'Nothing yet. This list is kept in this browser only.', forget: 'Forget all',
    purge: 'Delete server copies', purged: 'The server has forgotten everything that it had kept of you.',
    nothingKept: 'The server had kept nothing of you.', cache_unavailable: 'Some of it could not be deleted. Try again in a moment.',
    fromMicrophone: 'Microphone', metrics: 'Metrics', health: 'Health',
    micDenied: 'The microphone was refused. Allow it in the address bar of your browser, then press Speak again.',
    micMissing: 'No microphone was found. Plug one in and press Speak again, or choose a file.',
    micBusy: 'The microphone cannot be read: another program may be using it. Close that, then press Speak again.',
    micInsecure: 'Browsers give the microphone only to pages from localhost or over https. Open this page there, or choose a file.',
    keyNeeded: 'This server needs a valid API key.', nothing: 'No speech was heard.',
    lost: 'The connection was lost and could not be resumed. What was recognised is kept.',
    unreachable: 'The server cannot be reached. Is it running?', failed: 'That did not work.',
    too_large: 'The file is too large.', audio_too_long: 'The audio is too long.',
    unsupported_format: 'This kind of file is not accepted.', bad_audio: 'This file cannot be read: it may be damaged or empty.',
    quota_exceeded: 'All of your sessions are in use. Try again in a moment.', rate_exceeded: 'Audio came too fast.',
    overloaded: 'The server is busy. Try again in a moment.', model_unavailable: 'The model is not available on the server.',
    draining: 'The server is restarting. Try again in a moment.', timeout: 'It took too long.',
    finalization_timeout: 'The last words did not come in time.', session_superseded: 'The session went on elsewhere.',
  },
  zh: {
    skip: '跳到识别结果',
    connecting: '连接中', ready: '就绪', warming: '预热中', down: '无法连接服务器',
    reconnecting: '连接中断，正在恢复', behind: '识别追赶中', leaving: '服务器正在重启',
    controls: '说话或选择文件', speak: '开始说话', stop: '停止', finishing: '正在收尾…', level: '麦克风音量',
    options: '选项', language: '语言', auto: '自动识别', hotwords: '热词，用逗号分隔', key: 'API 密钥',
    drop: '把音频文件拖到这里，或点击选择', uploading: '上传中', recognising: '识别中', cancel: '取消',
    transcript: '识别结果', copy: '复制', copied: '已复制', downloadSrt: '下载 SRT 字幕', downloadVtt: '下载 VTT 字幕', clear: '清空',
    empty: '说的话会显示在这里。灰色文字可能还会变，其余为最终结果。',
    history: '历史记录', historyEmpty: '暂无。此列表只保存在本浏览器中。', forget: '全部删除',
    purge: '删除服务器副本', purged: '服务器已删除为您保留的全部内容。',
    nothingKept: '服务器没有保留您的任何内容。', cache_unavailable: '有些内容未能删除，请稍后再试。',
    fromMicrophone: '麦克风', metrics: '指标', health: '健康状态',
    micDenied: '麦克风被拒绝。请在浏览器地址栏允许使用，然后再按“开始说话”。',
    micMissing: '没有找到麦克风。请插入麦克风后再按“开始说话”，或选择文件。',
    micBusy: '无法读取麦克风：可能有其他程序正在使用。请关闭它，然后再按“开始说话”。',
    micInsecure: '浏览器只允许 localhost 或 https 页面使用麦克风。请换用这样的地址，或选择文件。',
    keyNeeded: '此服务器需要有效的 API 密钥。', nothing: '没有听到语音。',
    lost: '连接中断，无法恢复。已识别的内容已保留。',
    unreachable: '无法连接服务器。它在运行吗？', failed: '操作没有成功。',
    too_large: '文件太大。', audio_too_long: '音频太长。',
    unsupported_format: '不支持这种文件。', bad_audio: '无法读取此文件：可能已损坏或为空。',
    quota_exceeded: '您的会话数已用完，请稍后再试。', rate_exceeded: '音频发送过快。',
    overloaded: '服务器繁忙，请稍后再试。', model_unavailable: '服务器上的模型不可用。',
    draining: '服务器正在重启，请稍后再试。', timeout: '等待超时。',
    finalization_timeout: '最后的内容未能及时返回。', session_superseded: '会话已在别处继续。',
  },
};

const TAGS = { en: 'en', zh: 'zh-CN' };
const remembered = recall('locale', navigator.language.startsWith('zh') ? 'zh' : 'en');
let locale = Object.hasOwn(words, remembered) ? remembered : 'en';

export const tag = () => TAGS[locale];
export const knows = (key) => Object.hasOwn(words.en, key);

/** Writes a text into an element, now and whenever the language is switched. */
export function say(element, key) {
  element.dataset.i18n = key;
  element.textContent = words[locale][key];
}

export function translatePage() {
  document.documentElement.lang = tag();
  for (const element of document.querySelectorAll('[data-i18n]')) say(element, element.dataset.i18n);
  for (const element of document.querySelectorAll('[data-i18n-label]')) {
    element.setAttribute('aria-label', words[locale][element.dataset.i18nLabel]);
  }
}

export function switchLocale() {
  locale = locale === 'zh' ? 'en' : 'zh';
  keep('locale', locale);
  translatePage();
}
